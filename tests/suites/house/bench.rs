//! The benchmark judges what its README says it judges: its own check, on made-up samples and without a server.

use std::process::Command;

use crate::text::root;

#[test]
fn the_benchmark_shows_every_row_of_its_table_and_a_missed_one_is_a_failure() {
    let check = root().join("bench/check.py");
    let output = Command::new("python3").arg("-B").arg(check).output().expect("python3 runs");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let run = std::fs::read_to_string(root().join("bench/run")).expect("bench/run");
    assert!(
        run.contains("code = report.finish(") && run.contains("sys.exit(code)"),
        "the exit code of a run is not the report's"
    );
}
