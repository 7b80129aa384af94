//! What a limit may look like, and what is said of what it may not.

use super::*;
use proptest::prelude::*;

fn sizes_of(text: &str) -> (usize, usize, bool) {
    match parse(&format!("calloc{text}.bytes=1")).unwrap().what {
        What::Calls { sizes, .. } => (sizes.first, sizes.last, sizes.widened),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_example() {
    let limit = parse("calloc>1MiB.bytes=2GiB").unwrap();
    let sizes = Sizes { first: 21, last: BUCKETS - 1, widened: false };
    let what = What::Calls { kinds: vec![Kind::Calloc], sizes, metric: Metric::Bytes };
    assert_eq!((limit.what, limit.most), (what, 2 << 30));
}

#[test]
fn bounds() {
    let end = BUCKETS - 1;
    for (text, want) in [
        ("", (0, end, false)),
        (">4096", (13, end, false)),
        (">=4097", (13, end, false)),
        (">=4096", (12, end, true)),
        ("<=4KiB", (0, 12, false)),
        ("<4097", (0, 12, false)),
        ("<4KiB", (0, 12, true)),
        (">64k<=1m", (17, 20, false)),
        ("<=1M>64KB", (17, 20, false)),
        (">100<200", (7, 8, true)),
        (">0", (0, end, true)),
        (">=0", (0, end, false)),
        (">1TiB", (end, end, false)),
        (">=1", (0, end, true)),
        (">1", (1, end, false)),
    ] {
        assert_eq!(sizes_of(text), want, "{text}");
    }
}

#[test]
fn totals_and_mistakes() {
    assert_eq!(parse("peak=2G").unwrap().what, What::Peak);
    let fraction = parse("calloc>1.5MiB<=0.25G.bytes=2.5G").unwrap();
    assert_eq!(fraction.what, parse("calloc>1536K<=256M.bytes=1").unwrap().what);
    assert_eq!(fraction.most, 2560 << 20);
    assert_eq!(parse("free.calls=0").unwrap().what, What::Frees);
    let spaced = parse(" calloc > 64 KiB <= 1 MiB . bytes = 2 GiB").unwrap();
    assert_eq!(spaced.what, parse("calloc>64KiB<=1MiB.bytes=2GiB").unwrap().what);
    assert_eq!(parse(" peak\n=  2 G ").unwrap().text, "peak = 2 G");
    for (bad, word) in [
        ("calloc", "quoted, as the shell takes > for itself"),
        ("calloc.bytes=1 0", "\"0\" stands behind a blank"),
        ("calloc.bytes=1 G 1", "\"1\" stands behind a blank"),
        ("cal loc.bytes=1", "\"loc.bytes=1\" stands behind a blank"),
        ("  ", "needs =LIMIT"),
        ("calloc.bytes", "needs =LIMIT"),
        ("calloc>=1.bytes", "needs =LIMIT"),
        ("calloc=1", "needs .METRIC"),
        ("peak<=1GiB", "is written peak=1GiB"),
        ("calloc>1M.bytes<=1GiB", "is written calloc>1M.bytes=1GiB"),
        ("processes=4MiB", "\"4MiB\" is no number of what processes counts"),
        ("calloc.calls=1k", "write digits alone"),
        ("calloc.size=1", "unknown metric"),
        ("new.bytes=1", "unknown kind"),
        ("malloc.untouched=1", "write calloc.untouched"),
        ("all.avoided=1", "callocs alone"),
        ("free>1.calls=1", "frees have no sizes"),
        ("calloc>1M.failed=1", "not counted by size"),
        ("calloc>1X.bytes=1", "not a number"),
        ("calloc.bytes=", "not a number"),
        ("calloc.bytes=2iB", "not a number"),
        ("calloc>.bytes=1", "not a number"),
        ("calloc>1>2.bytes=1", "twice"),
        ("calloc>4<2.bytes=1", "no size is meant"),
        ("calloc<0.bytes=1", "no size is meant"),
        ("calloc.bytes=99999999999999999999", "too large"),
        ("calloc.bytes=1.5", "not a number"),
        ("calloc.bytes=99999999T", "too large"),
    ] {
        let error = parse(bad).unwrap_err();
        assert!(error.contains(word), "{bad}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_answered(text in "[a-z<>=.0-9KMi]{0,30}|.*") {
        let _ = parse(&text);
    }

    #[test]
    fn no_size_that_is_meant_is_left_out(size: u64, shift in 0u32..64, low: u32, high: u32) {
        let size = size >> shift;
        let text = format!("all>={low}<={}.calls=1", u64::from(low) + u64::from(high));
        let What::Calls { sizes, .. } = parse(&text).unwrap().what else { panic!() };
        if (u64::from(low)..=u64::from(low) + u64::from(high)).contains(&size) {
            prop_assert!((sizes.first..=sizes.last).contains(&bucket_of(size as usize)));
        }
    }
}
