//! One rank alone.

use shardmark_comm::{AgreeError, CommError, CommExt, Counted, agree, conformance, solo};

#[test]
fn conforms() {
    conformance::run_all(&solo()).unwrap();
    conformance::run_all(&Counted::new(solo())).unwrap();
}

#[test]
fn a_receive_without_a_send_fails_at_once() {
    let error = solo().recv_vec::<f32>(0, 1, 1).unwrap_err().to_string();
    assert_eq!(error, "solo: expected a send of this rank to itself before the wait, got none; start the send first");
}

#[test]
fn a_request_of_nobody_is_refused() {
    let (a, b) = (solo(), solo());
    let request = a.isend_vec(0, 1, vec![1.0f32]).unwrap();
    assert_eq!(b.wait_vec::<f32>(request), Err(CommError::Request { got: 0 }));
}

#[test]
fn agreement_of_one() {
    let failed = agree(&solo(), Err::<(), _>("disk full"));
    assert_eq!(failed, Err(AgreeError::Failed { rank: 0, message: "disk full".into() }));
}
