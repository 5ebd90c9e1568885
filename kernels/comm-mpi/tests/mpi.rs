//! MPI: conformance on 1 to 4 ranks, and jobs that must end when a rank panics, is killed, hangs or fails.
//!
//! One program in two roles. Started plainly it launches itself: alone, then under mpirun. Started by a launcher
//! (`mpirun -n 3 target/release/deps/mpi-*`) it is a rank.

use shardmark_comm::{CommExt, ReduceOp, Watchdog, conformance};
use shardmark_comm_mpi::{Options, abort, world};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// What the ranks are to do; set by the launching side.
const SCENE: &str = "SHARDMARK_MPI_TEST";

fn main() -> ExitCode {
    let launched =
        ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"].iter().any(|name| std::env::var_os(name).is_some());
    match std::env::var(SCENE) {
        Ok(scene) => rank(&scene),
        Err(_) if launched => rank("conformance"),
        Err(_) => launch(),
    }
}

/// One rank of a scene.
fn rank(scene: &str) -> ExitCode {
    // Parts so short that the suite's payloads need several.
    let launched = std::env::var("OMPI_COMM_WORLD_RANK").ok().and_then(|rank| rank.parse().ok());
    let options = Options { part: 1000, rank: launched, ..Options::default() };
    let _watchdog = (scene == "init").then(|| watchdog(&options));
    if scene == "init" && launched == Some(2) {
        std::thread::sleep(Duration::from_secs(60));
    }
    let world = match world(&options) {
        Ok(world) => world,
        Err(error) => {
            eprintln!("{error}");
            abort(1);
        }
    };
    let comm = &*world.comm;
    let last = comm.rank() + 1 == comm.size();
    match scene {
        "conformance" => match conformance::run_all(comm) {
            Ok(passed) => {
                println!("OK rank {} of {}: {passed} checks, {}", comm.rank(), comm.size(), world.library);
                return ExitCode::SUCCESS;
            }
            Err(error) => eprintln!("{error}"),
        },
        "panic" if last => panic!("on purpose"),
        "kill" if last => {
            // As the system does it when memory runs out: no handler runs.
            let killed = Command::new("sh").args(["-c", &format!("kill -9 {}", std::process::id())]).status();
            eprintln!("kill: {killed:?}");
        }
        "error" if last => eprintln!("fails on purpose"),
        "length" if last => {
            let got = comm.recv_vec::<f32>(0, 8, 3);
            eprintln!("{}", got.err().map_or("expected an error".into(), |error| error.to_string()));
        }
        "length" if comm.rank() == 0 => {
            let sent = comm.isend_vec(comm.size() - 1, 8, vec![0f32; 5]).and_then(|send| comm.wait(send));
            eprintln!("sent: {}", sent.is_ok());
            std::thread::sleep(Duration::from_secs(60));
        }
        "hang" | "finalize" if last => std::thread::sleep(Duration::from_secs(60)),
        "finalize" => {
            let _watchdog = watchdog(&options);
            drop(world);
        }
        "split" => {
            let _watchdog = watchdog(&options);
            if last {
                // What a split begins with: the others believe that all go on to the library's call.
                let told = comm.allgatherv_vec(vec![0u8; 13], &vec![13; comm.size()]);
                eprintln!("told: {}", told.is_ok());
                std::thread::sleep(Duration::from_secs(60));
            }
            eprintln!("split: {}", comm.split(Some(0), 0).is_ok());
        }
        _ => {
            let _watchdog = watchdog(&options);
            // The last rank never answers.
            let sum = comm.allreduce_value(1, ReduceOp::Sum);
            eprintln!("expected to wait, got {sum:?}");
        }
    }
    abort(1)
}

/// Ends the job when a rank waits for two seconds.
fn watchdog(options: &Options) -> std::io::Result<Watchdog> {
    Watchdog::start(&options.board, Duration::from_secs(2), |hang| {
        eprintln!("{hang}");
        abort(11);
    })
}

/// A finished job.
struct Job {
    name: String,
    code: Option<i32>,
    output: String,
    seconds: f64,
}

/// Runs a scene on `ranks` ranks; 0 means without a launcher.
fn job(scene: &str, ranks: usize) -> std::io::Result<Job> {
    let program = std::env::current_exe()?;
    let mut command = match ranks {
        0 => Command::new(&program),
        _ => Command::new("mpirun"),
    };
    if ranks > 0 {
        command.arg("-n").arg(ranks.to_string()).arg(&program);
    }
    // Tests run as root, with more ranks than cores, in containers.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("OMPI_MCA_hwloc_base_binding_policy", "none");
    let start = Instant::now();
    let output = command.env(SCENE, scene).output()?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let name = format!("{scene} on {ranks} ranks");
    Ok(Job { name, code: output.status.code(), output: text, seconds: start.elapsed().as_secs_f64() })
}

impl Job {
    /// Prints the verdict; the output too when it is bad.
    fn judge(self, good: bool) -> bool {
        let Job { name, code, output, seconds } = self;
        println!("{} {name}: exit code {code:?} after {seconds:.1} s", if good { "ok  " } else { "FAIL" });
        if !good {
            println!("{output}");
        }
        good
    }
}

/// All jobs, one after the other.
fn launch() -> ExitCode {
    match launch_all() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("mpirun: expected to start it, got: {error}; install openmpi-bin or mpich");
            ExitCode::FAILURE
        }
    }
}

fn launch_all() -> std::io::Result<bool> {
    let mut good = true;
    for ranks in 0..=4 {
        let job = job("conformance", ranks)?;
        let all_ok = job.output.matches("OK rank").count() == ranks.max(1);
        let passed = job.code == Some(0) && all_ok;
        good &= job.judge(passed);
    }
    for (scene, said) in [
        ("panic", "on purpose"),
        ("kill", "signal 9"),
        ("error", "fails on purpose"),
        ("hang", "waits in allreduce"),
        ("init", "waits in MPI_Init for 2."),
        ("split", "waits in split (collective 1) for 2."),
        ("finalize", "waits in MPI_Finalize for 2."),
        ("length", "recv from rank 0 (key 8): expected 3 elements, got more"),
    ] {
        let job = job(scene, 3)?;
        let ended = job.code != Some(0) && job.seconds < 10.0 && job.output.contains(said);
        good &= job.judge(ended);
    }
    Ok(good)
}
