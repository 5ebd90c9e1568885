//! Threads: conformance, failures and hangs.

use super::{Options, RunError, run};
use crate::conformance;
use crate::{Board, Comm, CommError, CommExt, Counted, Doing, RankState, ReduceOp, Watchdog};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

fn go<T: Send>(
    ranks: usize,
    f: impl Fn(&dyn Comm) -> Result<T, CommError> + Sync,
) -> Result<Vec<T>, RunError<CommError>> {
    run(ranks, &Options::default(), f)
}

#[test]
fn conforms_for_1_to_8_ranks() {
    for ranks in 1..=8 {
        let passed = run(ranks, &Options::default(), |comm| conformance::run_all(comm)).unwrap();
        assert!(passed.iter().all(|&n| n > 19 * ranks), "{ranks} ranks: {passed:?}");
    }
}

#[test]
fn counted_conforms() {
    for ranks in [1, 3, 4] {
        run(ranks, &Options::default(), |comm| conformance::run_all(&Counted::new(comm))).unwrap();
    }
}

#[test]
fn float_sums_are_equal_to_the_bit_in_every_run() {
    let sums = |run: u64| {
        go(5, |comm| {
            let rank = comm.rank() as u64;
            let value =
                |bucket: u64, i: u64| ((rank * 7919 + bucket * 104_729 + i) as f32).sin() * 10f32.powi((i % 9) as i32);
            let mut requests = Vec::new();
            for bucket in 0..6 {
                // Another rank is late each time.
                std::thread::sleep(Duration::from_micros((run * 13 + rank * 31 + bucket * 17) % 7 * 150));
                let bytes = (0..700 * (bucket + 1)).map(|i| value(bucket, i)).collect();
                requests.push(comm.iallreduce_vec::<f32>(bytes, ReduceOp::Sum)?);
            }
            let mut bits = Vec::new();
            for request in requests {
                bits.extend(comm.wait_vec::<f32>(request)?.into_iter().map(f32::to_bits));
            }
            Ok(bits)
        })
        .unwrap()
    };
    let first = sums(0);
    assert!(first.iter().all(|rank| *rank == first[0]));
    for run in 1..20 {
        assert_eq!(sums(run), first, "run {run}");
    }
}

#[test]
fn messages_are_moved_not_copied() {
    let addresses = go(2, |comm| {
        if comm.rank() == 0 {
            let vec = vec![1.0f32; 1000];
            let address = vec.as_ptr() as usize;
            let request = comm.isend_vec(1, 0, vec)?;
            comm.wait(request)?;
            return Ok(address);
        }
        Ok(comm.recv_vec::<f32>(0, 0, 1000)?.as_ptr() as usize)
    })
    .unwrap();
    assert_eq!(addresses[0], addresses[1]);
}

#[test]
fn a_panic_wakes_everybody_and_is_named() {
    let start = Instant::now();
    let errors = std::sync::Mutex::new(Vec::new());
    let result = go(6, |comm| {
        if comm.rank() == 3 {
            std::thread::sleep(Duration::from_millis(20));
            panic!("no more {}", "memory");
        }
        // Blocked in different calls, and computing between progress calls.
        let blocked = match comm.rank() {
            0 => comm.barrier(),
            1 => comm.recv_vec::<f32>(3, 1, 1).map(|_| ()),
            2 => comm.recv_vec::<f32>(4, 1, 1).map(|_| ()),
            4 => comm.allreduce_value(1.0f32, ReduceOp::Sum).map(|_| ()),
            _ => loop {
                if let Err(error) = comm.progress() {
                    break Err(error);
                }
                std::thread::sleep(Duration::from_millis(1));
            },
        };
        errors.lock().unwrap().push(blocked.clone().unwrap_err());
        blocked
    });
    assert!(matches!(result, Err(RunError::Panicked { rank: 3, ref message }) if message == "no more memory"));
    let expected = CommError::RankFailed { rank: 3, message: "panicked: no more memory".into() };
    assert_eq!(errors.into_inner().unwrap(), vec![expected; 5]);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn an_error_wakes_everybody_and_comes_back() {
    let result = run(4, &Options::default(), |comm| {
        if comm.rank() == 2 {
            return Err("weights.h5: no such file".to_string());
        }
        comm.barrier().map_err(|e| e.to_string())
    });
    assert_eq!(result.unwrap_err().to_string(), "rank 2: weights.h5: no such file");
}

#[test]
fn a_receive_from_a_rank_that_returned_fails() {
    let result = go(2, |comm| if comm.rank() == 0 { Ok(vec![]) } else { comm.recv_vec::<f32>(0, 4, 1) });
    let text = result.unwrap_err().to_string();
    assert_eq!(
        text,
        "rank 1: recv from rank 0 (key 4): expected a message, got none before rank 0 returned; every receive needs its send"
    );
}

#[test]
fn a_message_sent_before_returning_arrives() {
    let result = go(2, |comm| {
        if comm.rank() == 0 {
            let request = comm.isend_vec(1, 4, vec![5])?;
            comm.wait(request)?;
            return Ok(vec![]);
        }
        std::thread::sleep(Duration::from_millis(20));
        comm.recv_vec::<i32>(0, 4, 1)
    });
    assert_eq!(result.unwrap()[1], [5]);
}

#[test]
fn a_wrong_length_or_type_is_named() {
    let fails = |receive: fn(&dyn Comm) -> Result<(), CommError>| {
        go(2, |comm| {
            if comm.rank() == 1 {
                return receive(comm);
            }
            let request = comm.isend_vec(1, 8, vec![1.0f32; 3])?;
            comm.wait(request).map(|_| ())
        })
        .unwrap_err()
        .to_string()
    };
    let length = fails(|comm| comm.recv_vec::<f32>(0, 8, 4).map(|_| ()));
    assert!(length.contains("recv from rank 0 (key 8): expected 4 elements, got 3"), "{length}");
    let dtype = fails(|comm| comm.recv_vec::<f64>(0, 8, 3).map(|_| ()));
    assert!(dtype.contains("recv from rank 0 (key 8): expected f64, got f32"), "{dtype}");
}

#[test]
fn the_watchdog_names_rank_operation_and_peers() {
    let board = Board::new();
    let released = Arc::new(AtomicBool::new(false));
    let (report, reports) = mpsc::channel();
    let release = released.clone();
    let watchdog = Watchdog::start(&board, Duration::from_secs(60), move |hang| {
        report.send(hang).unwrap();
        release.store(true, Ordering::Release);
    })
    .unwrap();
    let options = Options { board, ..Options::default() };
    let (started, all_out) = (Instant::now(), std::sync::Barrier::new(4));
    run(4, &options, |comm| {
        comm.barrier()?;
        // On a busy machine a rank may stay in the barrier for long; the limit is for what follows.
        all_out.wait();
        watchdog.set_limit(Duration::from_millis(30));
        if comm.rank() == 1 {
            // Stops answering until the handler has been called.
            while !released.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let request = comm.isend_vec(2, 17, vec![1])?;
            comm.wait(request)?;
        }
        match comm.rank() {
            2 => drop(comm.recv_vec::<i32>(1, 17, 1)?),
            3 => return Ok(()),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
        Ok::<_, CommError>(())
    })
    .unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));
    let hang = reports.recv_timeout(Duration::from_secs(1)).unwrap();
    assert_eq!((hang.rank, hang.operation.name, hang.operation.key, &hang.peers[..]), (2, "recv", Some(17), &[1][..]));
    assert!(hang.waited >= Duration::from_millis(30));
    assert!(matches!(hang.ranks[1].doing, Doing::Computing { last: Some(last) } if last.name == "barrier"));
    assert!(!matches!(hang.ranks[3].doing, Doing::Waiting { .. }));
    let text = hang.to_string();
    assert!(text.starts_with("rank 2 waits in recv from rank 1 (key 17) for "), "{text}");
    assert!(text.contains("\nrank 1 is computing for "), "{text}");
}

#[test]
fn the_watchdog_names_who_is_missing_in_a_collective() {
    let board = Board::new();
    let (report, reports) = mpsc::channel();
    let watchdog = Watchdog::start(&board, Duration::from_secs(60), move |hang| report.send(hang).unwrap()).unwrap();
    let reports = std::sync::Mutex::new(reports);
    let options = Options { board, ..Options::default() };
    let waits_for_2 = |r: &RankState| matches!(&r.doing, Doing::Waiting { missing, .. } if *missing == [2]);
    let hangs = run(3, &options, |comm| {
        let mut hang = None;
        if comm.rank() == 2 {
            while options.board.ranks().iter().filter(|r| waits_for_2(r)).count() < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            watchdog.set_limit(Duration::from_millis(20));
            hang = reports.lock().unwrap().recv_timeout(Duration::from_secs(10)).ok();
        }
        comm.allreduce_value(1, ReduceOp::Sum)?;
        Ok::<_, CommError>(hang)
    })
    .unwrap();
    let hang = hangs[2].clone().unwrap();
    assert_eq!((hang.operation.name, &hang.peers[..]), ("allreduce", &[2][..]));
    let text = hang.to_string();
    assert!(text.contains("waits in allreduce (collective 0) for "), "{text}");
    assert!(text.contains(" s, missing rank 2\n"), "{text}");
    assert!(text.contains("\nrank 2 is computing for "), "{text}");
}

#[test]
fn a_quiet_watchdog_stops_at_once() {
    let started = Instant::now();
    drop(Watchdog::start(&Board::new(), Duration::from_secs(100), |_| panic!("nothing hangs")).unwrap());
    assert!(started.elapsed() < Duration::from_secs(1));
}
