//! The article's figures on the model: without the library a calloc of a freed block costs what it asked for, up to the
//! cache's limit, and nothing above; with it nothing at any size. Ratios of one run, never times.

use shim_tests::macos::{package, run, Mac};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const SIZES: [usize; 9] =
    [127 * KIB, 256 * KIB, MIB, 4 * MIB, 10 * MIB, 50 * MIB, 100 * MIB, 250 * MIB, 1000 * MIB];

/// What a round of the loop costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    nanoseconds: f64,
    /// Bytes that were cleared, by libmalloc, the library, or the kernel, or that the kernel made for a page touched.
    cleared: usize,
}

fn costs(with: bool, kind: &str, rounds: usize, sizes: &[usize], more: &[&str]) -> Vec<Cost> {
    let library = package().join("lib/libfastcalloc.dylib");
    let loops = sizes.iter().map(|size| format!("{kind}:{size}:{rounds}"));
    let words: Vec<String> = more.iter().map(|word| (*word).to_string()).chain(loops).collect();
    let done = run(Mac::Intel, with.then_some(&*library), &words);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{words:?}\n{said}{}", String::from_utf8_lossy(&done.stderr));
    let lines = said.lines().filter_map(|line| line.strip_prefix(kind));
    let costs: Vec<Cost> = lines
        .map(|line| {
            let numbers: Vec<usize> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
            // A block mapped anew in each round has one page made for it, where its header is.
            let fresh = numbers[3] >= 5 * rounds;
            Cost { nanoseconds: numbers[1] as f64, cleared: numbers[2].max(if fresh { 4096 } else { 0 }) }
        })
        .collect();
    assert_eq!(costs.len(), sizes.len(), "{said}");
    for (size, cost) in sizes.iter().zip(&costs) {
        println!(
            "   {} {more:?} {kind} {size:>10}: {:>9.0} ns, {:>9} bytes cleared",
            if with { "with" } else { "plain" },
            cost.nanoseconds,
            cost.cleared
        );
    }
    costs
}

/// The article: about linear up to 125 MB, instant at 1000 MB.
#[test]
fn plain_is_as_the_article_says() {
    let plain = costs(false, "pairs", 8, &[12 * MIB, 60 * MIB, 120 * MIB, 1000 * MIB], &[]);
    for pair in [(0, 1, 5.0), (0, 2, 10.0)] {
        let ratio = plain[pair.1].cleared as f64 / plain[pair.0].cleared as f64;
        assert!((ratio - pair.2).abs() < 0.01, "clears {ratio} times as much for {} times the size", pair.2);
        let slower = plain[pair.1].nanoseconds / plain[pair.0].nanoseconds;
        assert!(slower > pair.2 / 2.5, "takes only {slower} times as long for {} times the size", pair.2);
    }
    assert!(plain[3].nanoseconds * 50.0 < plain[2].nanoseconds, "1000 MiB is not instant: {plain:?}");
    // Big machines keep blocks of up to 512 MiB (10.15 and later).
    let big = costs(false, "pairs", 4, &[250 * MIB, 1000 * MIB], &["--ring", "64"]);
    assert!(big[0].cleared == 250 * MIB && big[1].nanoseconds * 50.0 < big[0].nanoseconds, "{big:?}");
}

/// With the library no size costs more than twice another in memory written, and none more time than twice what libmalloc
/// takes for the 1000 MiB that it does not keep.
#[test]
fn with_the_library_it_is_flat() {
    let instant = costs(false, "pairs", 200, &[1000 * MIB], &[])[0].nanoseconds;
    let instant = instant.max(costs(false, "reads", 200, &[1000 * MIB], &[])[0].nanoseconds);
    for more in [&[][..], &["--ring", "64"], &["--zero", "unknown"], &["--zero", "refused"]] {
        for kind in ["pairs", "reads"] {
            let flat = costs(true, kind, 200, &SIZES, more);
            let cleared = flat.iter().map(|cost| cost.cleared);
            let (least, most) = (cleared.clone().min().unwrap(), cleared.max().unwrap());
            assert!(most <= 2 * least, "{kind} {more:?}: {least} to {most} bytes");
            for (size, cost) in SIZES.iter().zip(&flat) {
                assert!(
                    cost.nanoseconds <= 2.0 * instant,
                    "{kind} {more:?} {size}: {cost:?}, {instant} ns is instant"
                );
            }
        }
    }
}
