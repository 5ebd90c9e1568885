//! What a case's process says, and the one word that comes of it.

use shardmark_plan::outcome::{Outcome, Status, Stopped, classify};
use shardmark_plan::{Context, Event, provenance};

fn done() -> Event {
    Event::Done { record: "x.h5".into() }
}

fn hang() -> Event {
    Event::Hang { rank: 2, operation: "recv".into(), peers: vec![1], seconds: 5.0 }
}

#[test]
fn events_round_trip_and_other_lines_are_log() {
    let step = Event::Step { step: 3, seconds: 0.125, loss: 0.5 };
    assert_eq!(step.line(), r#"@shardmark {"event":"step","step":3,"seconds":0.125,"loss":0.5}"#);
    for event in [step, done(), hang(), Event::Failed { rank: 1, message: "a\nb".into() }] {
        assert_eq!(Event::parse(&event.line()), Some(event));
    }
    let bad = Event::Step { step: 0, seconds: 1.0, loss: f64::NAN };
    assert!(bad.line().contains("\"loss\":null"));
    assert!(matches!(Event::parse(&bad.line()), Some(Event::Step { loss, .. }) if loss.is_nan()));
    for line in ["", "hello", "@shardmark {", "@shardmark {\"event\":\"unknown\"}", " @shardmark {}"] {
        assert_eq!(Event::parse(line), None);
    }
}

#[test]
fn outcomes_follow_the_supervisor_then_the_ranks_then_the_code() {
    let code = Status::Code;
    let wrong = Event::Check { passed: false, used: 2.0, message: String::new() };
    let table = [
        (None, vec![done()], code(0), Outcome::Ok),
        (None, vec![], code(0), Outcome::Failed),
        (None, vec![wrong, done()], code(0), Outcome::Wrong),
        (None, vec![done()], code(10), Outcome::Wrong),
        (None, vec![done()], Status::Signal(9), Outcome::Ok),
        (Some(Stopped::Interrupted), vec![done()], code(0), Outcome::Ok),
        (Some(Stopped::Lingering), vec![hang()], Status::Signal(15), Outcome::Hang),
        (Some(Stopped::Lingering), vec![], Status::Signal(15), Outcome::Failed),
        (None, vec![], code(11), Outcome::Hang),
        (None, vec![hang()], code(1), Outcome::Hang),
        (None, vec![], code(12), Outcome::WontFit),
        (None, vec![], code(13), Outcome::OutOfMemory),
        (None, vec![], code(101), Outcome::Failed),
        (None, vec![], Status::Signal(9), Outcome::Failed),
        (Some(Stopped::Timeout), vec![], Status::Signal(15), Outcome::Timeout),
        (Some(Stopped::Timeout), vec![hang()], Status::Signal(15), Outcome::Hang),
        (Some(Stopped::Silent), vec![], Status::Signal(9), Outcome::Hang),
        (Some(Stopped::Interrupted), vec![hang()], code(0), Outcome::Interrupted),
    ];
    for (stopped, events, status, expected) in table {
        assert_eq!(classify(stopped, &events, status, false), expected, "{stopped:?} {events:?} {status:?}");
    }
    assert_eq!(classify(None, &[], Status::Signal(9), true), Outcome::OutOfMemory);
}

#[test]
fn a_context_is_read_back() {
    let context = Context { suite: "smoke".into(), provenance: provenance::collect(), ..Context::default() };
    let path = std::env::temp_dir().join(format!("shardmark-context-{}.json", std::process::id()));
    context.write(&path).unwrap();
    assert_eq!(Context::read(&path).unwrap(), context);
    std::fs::remove_file(&path).unwrap();
    for name in ["version", "rustc", "host", "threads"] {
        assert!(context.provenance.contains_key(name), "{name}");
    }
    assert!(Context::read(&path).unwrap_err().to_string().contains("expected a context file, got"));
}
