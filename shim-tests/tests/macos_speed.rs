//! The article's figures on the model: without the library a calloc of a freed block costs what it asked for, up to the
//! cache's limit, and nothing above; with it the same at any size. Ratios of one run, never times: the runs of all sizes take
//! turns, and the least of each size counts: a run does the same each time and takes a millisecond, so that whatever is more
//! was another program's.
//!
//! The model's kernel takes its own time, not xnu's. So what does not depend on that is held to a bound, too: calls of the
//! kernel, bytes cleared, and pages looked up.

use shim_tests::macos::{package, run, Mac};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const SIZES: [usize; 9] =
    [127 * KIB, 256 * KIB, MIB, 4 * MIB, 10 * MIB, 50 * MIB, 100 * MIB, 250 * MIB, 1000 * MIB];
const TURNS: usize = 7;

/// What a round of the loop costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    nanoseconds: f64,
    /// Bytes that were cleared, by libmalloc, the library, or the kernel, or that the kernel made for a page touched.
    cleared: f64,
    /// Calls of the kernel.
    calls: f64,
    /// Pages that mincore looked up.
    walked: f64,
}

fn once(mac: Mac, with: bool, kind: &str, rounds: usize, size: usize, more: &[&str]) -> Cost {
    let library = package().join("lib/libfastcalloc.dylib");
    let words: Vec<String> =
        more.iter().map(|word| (*word).to_string()).chain([format!("{kind}:{size}:{rounds}")]).collect();
    let done = run(mac, with.then_some(&*library), &words);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{words:?}\n{said}{}", String::from_utf8_lossy(&done.stderr));
    let line = said.lines().find_map(|line| line.strip_prefix(kind)).expect("a line for the size");
    let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [_, nanoseconds, cleared, calls, maps, walked] = numbers[..] else { panic!("{line}") };
    // A block mapped anew in each round has one page made for it, where its header is.
    let fresh = maps >= 2.0;
    Cost { nanoseconds, cleared: if fresh { cleared.max(4096.0) } else { cleared }, calls, walked }
}

/// The least of each size, in time; the sizes take turns. The rest does not vary.
fn costs(with: bool, kind: &str, rounds: usize, sizes: &[usize], more: &[&str]) -> Vec<Cost> {
    let turns: Vec<Vec<Cost>> = (0..TURNS)
        .map(|_| sizes.iter().map(|size| once(Mac::Intel, with, kind, rounds, *size, more)).collect())
        .collect();
    let of = |index: usize| {
        let costs = turns.iter().map(|turn| turn[index]);
        costs.min_by(|a, b| a.nanoseconds.total_cmp(&b.nanoseconds)).expect("a turn")
    };
    let costs: Vec<Cost> = (0..sizes.len()).map(of).collect();
    for (size, cost) in sizes.iter().zip(&costs) {
        let who = if with { "with" } else { "plain" };
        println!(
            "   {who} {more:?} {kind} {size:>10}: {:>9.0} ns, {:>9.0} bytes cleared, {:.2} calls, {:.1} pages looked up",
            cost.nanoseconds, cost.cleared, cost.calls, cost.walked
        );
    }
    costs
}

/// The article: about linear up to 125 MB, instant at 1000 MB.
#[test]
fn plain_is_as_the_article_says() {
    let plain = costs(false, "pairs", 2, &[12 * MIB, 60 * MIB, 120 * MIB, 1000 * MIB], &[]);
    for pair in [(0, 1, 5.0), (0, 2, 10.0)] {
        let ratio = plain[pair.1].cleared / plain[pair.0].cleared;
        assert!((ratio - pair.2).abs() < 0.01, "clears {ratio} times as much for {} times the size", pair.2);
        let slower = plain[pair.1].nanoseconds / plain[pair.0].nanoseconds;
        assert!(slower > pair.2 / 2.5, "takes only {slower} times as long for {} times the size", pair.2);
    }
    assert!(plain[3].nanoseconds * 50.0 < plain[2].nanoseconds, "1000 MiB is not instant: {plain:?}");
    // Big machines keep blocks of up to 512 MiB (10.15 and later).
    let big = costs(false, "pairs", 2, &[250 * MIB, 1000 * MIB], &["--ring", "64"]);
    assert!(
        big[0].cleared == (250 * MIB) as f64 && big[1].nanoseconds * 50.0 < big[0].nanoseconds,
        "{big:?}"
    );
}

/// With the library no size takes more than twice as long as another, or clears more than twice as much.
#[test]
fn with_the_library_it_is_flat() {
    for more in [&[][..], &["--ring", "64"], &["--zero", "unknown"], &["--zero", "refused"]] {
        for kind in ["pairs", "reads"] {
            let flat = costs(true, kind, 1000, &SIZES, more);
            for (what, of) in
                [("ns", (|cost| cost.nanoseconds) as fn(&Cost) -> f64), ("bytes", |cost| cost.cleared)]
            {
                let least = flat.iter().map(of).fold(f64::MAX, f64::min);
                let most = flat.iter().map(of).fold(0.0, f64::max);
                println!("   {kind} {more:?}: {:.2} between the sizes, in {what}", most / least);
                assert!(most <= 2.0 * least, "{kind} {more:?}: {least} to {most} {what}");
            }
            for (size, cost) in SIZES.iter().zip(&flat) {
                assert!(cost.calls <= 5.0 && cost.walked <= 260.0, "{kind} {more:?} {size}: {cost:?}");
            }
        }
    }
}

/// Pages here and there cost what was written, not a walk over all the others, but for the look that is due now and then.
#[test]
fn pages_here_and_there_cost_what_was_written() {
    for more in [&[][..], &["--zero", "unknown"]] {
        for size in [10 * MIB, 100 * MIB, 400 * MIB] {
            let cost = once(Mac::Intel, true, "sparse", 200, size, more);
            println!("   {more:?} sparse {size:>10}: {cost:?}");
            let written = (size / (4 * MIB) + 2) * 4096;
            let look = size / 4096 / 32;
            assert!(cost.cleared <= 1.5 * written as f64 && cost.walked <= look as f64 + 260.0, "{cost:?}");
        }
    }
}

/// With pages of 16 KiB; under the emulator time tells nothing.
#[test]
fn the_kernel_has_as_little_to_do_on_apple_silicon() {
    for more in [&[][..], &["--zero", "unknown"], &["--zero", "refused"]] {
        for size in SIZES {
            let cost = once(Mac::Silicon, true, "reads", 100, size, more);
            println!("   {more:?} reads {size:>10}: {cost:?}");
            assert!(cost.calls <= 5.0 && cost.walked <= 260.0, "{more:?} {size}: {cost:?}");
            // A page of 16 KiB, and a little for the looks that are due.
            assert!(cost.cleared <= 2.0 * 16384.0, "{more:?} {size}: {cost:?}");
        }
    }
}
