//! A bucket that is temporarily unreachable, through a proxy that the test disconnects.

use super::pool::Pool;
use super::proxy::Proxy;
use crate::kit::{Sandbox, ran, skipped, wait_for};
use std::process::Stdio;
use std::time::Duration;

/// The attempts end while the store is unreachable; their results are stored once it is back.
pub fn a_store_that_is_away_for_20_s_costs_nothing(pool: &Pool) {
    let (Ok(prefix), Ok(endpoint)) = (std::env::var("TRAINYARD_TEST_S3"), std::env::var("AWS_ENDPOINT_URL")) else {
        return skipped("TRAINYARD_TEST_S3 names no bucket");
    };
    let proxy = Proxy::of(&endpoint);
    let s = Sandbox::new();
    s.write("trainyard.yaml", pool.site());
    let s = {
        let url = format!("{}/{}", prefix.trim_end_matches('/'), s.name());
        s.with_store(url)
    };
    s.write_placed(
        "away.yaml",
        "version: 1\nname: away\nstages:\n  away:\n    matrix: {n: [1, 2, 3]}\n    \
         run: 'echo works >> @log; while [ ! -e @go ]; do sleep 0.05; done; echo ${{ matrix.n }} > \
         ${{ outputs.o }}/n'\n    outputs: {o: {kind: files}}\n",
    );
    let mut command = s.command(&["run", "away.yaml"]);
    command.env("AWS_ENDPOINT_URL", &proxy.url).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let works = || s.log().len();
    wait_for("the stages to work", pool.seconds(30), || works() == 3);
    proxy.set_up(false);
    std::thread::sleep(Duration::from_secs(2));
    s.write("go", "");
    std::thread::sleep(Duration::from_secs(18));
    proxy.set_up(true);
    ran(child.wait_with_output().unwrap()).code(0).prints("3 done");
    assert_eq!(works(), 3, "nothing was computed twice");
}
