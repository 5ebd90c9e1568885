//! The counting communicator against counts made by hand.

use shardmark_comm::{Collective, Comm, CommError, CommExt, Counted, Counts, Direction, ReduceOp, agree, threads};

/// Runs `f` on counting communicators and gives the counts of every rank.
fn counts(ranks: usize, f: impl Fn(&dyn Comm) -> Result<(), CommError> + Sync) -> Vec<Counts> {
    threads::run(ranks, &threads::Options::default(), |comm| {
        let counted = Counted::new(comm);
        // What came before the reset is forgotten.
        counted.barrier()?;
        counted.reset();
        f(&counted)?;
        Ok::<_, CommError>(counted.counts())
    })
    .unwrap()
}

#[test]
fn messages_by_peer_and_key() {
    let got = counts(3, |comm| {
        let (next, previous) = ((comm.rank() + 1) % 3, (comm.rank() + 2) % 3);
        for _ in 0..2 {
            let receive = comm.irecv_vec::<f32>(previous, 5, 10)?;
            let send = comm.isend_vec(next, 5, vec![0.0f32; 10])?;
            comm.wait(receive)?;
            comm.wait(send)?;
        }
        let send = comm.isend_vec(comm.rank(), 6, vec![0.0f64; 3])?;
        comm.recv_vec::<f64>(comm.rank(), 6, 3)?;
        comm.wait(send).map(|_| ())
    });
    for rank in 0..3 {
        let mut expected = Counts::default();
        for _ in 0..2 {
            expected.record_message(Direction::Send, (rank + 1) % 3, 5, 40);
            expected.record_message(Direction::Recv, (rank + 2) % 3, 5, 40);
        }
        expected.record_message(Direction::Send, rank, 6, 24);
        expected.record_message(Direction::Recv, rank, 6, 24);
        assert_eq!(got[rank], expected);
        assert_eq!(got[rank].total(Direction::Send).bytes, 104);
    }
}

#[test]
fn collectives_by_kind_and_group() {
    let got = counts(4, |comm| {
        let request = comm.iallreduce_vec(vec![1.0f32; 7], ReduceOp::Sum)?;
        comm.wait(request)?;
        comm.allreduce_value(1.0f64, ReduceOp::Max)?;
        comm.reduce_scatter_vec(vec![1i32; 6], &[1, 2, 3, 0], ReduceOp::Sum)?;
        comm.allgatherv_vec(vec![1u8; comm.rank()], &[0, 1, 2, 3])?;
        comm.alltoallv_vec(vec![1.0f32; 4], &[1; 4], &[1; 4])?;
        comm.broadcast_vec(1, vec![1.0f32; 5])?;
        comm.tree_allreduce_vec(&mut vec![1.0f32; 2], &mut |_, _| {})?;
        comm.barrier()?;
        agree(comm, Ok::<_, CommError>(())).ok();
        Ok(())
    });
    let mut expected = Counts::default();
    for (collective, bytes) in [
        (Collective::Allreduce, 28),
        (Collective::Allreduce, 8),
        (Collective::ReduceScatter, 24),
        (Collective::Allgatherv, 6),
        (Collective::Alltoallv, 16),
        (Collective::Broadcast, 20),
        (Collective::TreeAllreduce, 8),
        (Collective::Barrier, 0),
        (Collective::Agree, 0),
    ] {
        expected.record_collective(collective, 4, bytes);
    }
    // No message that the transport makes of a collective is counted.
    assert!(got.iter().all(|counts| *counts == expected), "{}", got[0]);
    assert_eq!((expected.calls(Collective::Allreduce).count, expected.calls(Collective::Allreduce).bytes), (2, 36));
}

#[test]
fn split_communicators_share_the_counts() {
    let got = counts(4, |comm| {
        // Ranks 0 and 2, ranks 1 and 3.
        let Some(half) = comm.split(Some(comm.rank() as u32 % 2), 0)? else { return Ok(()) };
        half.allreduce_vec(vec![1.0f32; 3], ReduceOp::Sum)?;
        let send = half.isend_vec(1 - half.rank(), 9, vec![0u8; 2])?;
        half.recv_vec::<u8>(1 - half.rank(), 9, 2)?;
        half.wait(send).map(|_| ())
    });
    for rank in 0..4 {
        let mut expected = Counts::default();
        expected.record_collective(Collective::Split, 4, 0);
        expected.record_collective(Collective::Allreduce, 2, 12);
        // Peers are named by their rank in the world.
        expected.record_message(Direction::Send, (rank + 2) % 4, 9, 2);
        expected.record_message(Direction::Recv, (rank + 2) % 4, 9, 2);
        assert_eq!(got[rank], expected);
    }
    let table = got[0].to_string();
    let lines: Vec<String> = table.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        ["operation ranks count payload bytes", "send 1 2", "recv 1 2", "allreduce 2 1 12", "split 4 1 0"]
    );
}
