//! What is measured: sizes, patterns, peers, rounds and time budgets. Pure.

use serde::{Deserialize, Serialize};

/// Sizes of the full run.
pub const SIZES: &str = "128K,256K,512K,1M,2M,4M,8M,16M,24M,32M,48M,64M,100M,125M,256M,1000M";
/// Sizes of `--quick`.
pub const QUICK_SIZES: &str = "128K,1M,16M,32M,100M";
/// Patterns of `--quick`.
pub const QUICK_PATTERNS: &str = "untouched,sparse,full";
/// Peers of `--quick`.
pub const QUICK_PEERS: &str = "glibc,jemalloc,mimalloc3,fastcalloc,fastcalloc-retain";

/// Sizes, and how many blocks of them are held at a time: 8, 32 and 128 MiB in all.
pub const IN_TURN: [(u64, usize); 3] = [(128 << 10, 64), (1 << 20, 32), (16 << 20, 8)];

/// What is measured in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Bytes asked for.
    pub size: u64,
    /// What the program writes.
    pub pattern: Pattern,
    /// Threads at once.
    pub threads: usize,
    /// Blocks that each of them holds at a time; the oldest is freed.
    pub held: usize,
}

impl Spec {
    /// Its share of the run, of so many peers, in units of about a fifth of a second of the reference machine.
    pub fn weight(&self, peers: u64) -> u64 {
        peers + (self.size / 8 + self.pattern.dirty(self.size)) * self.threads as u64 * peers / (400 << 20)
    }
}

/// All cells: one block at a time, and of some sizes more if `in_turn`.
pub fn specs(sizes: &[u64], patterns: &[Pattern], threads: &[u8], in_turn: bool) -> Vec<Spec> {
    let single = sizes.iter().map(|size| (*size, 1));
    let several = IN_TURN.into_iter().filter(|(size, _)| in_turn && sizes.contains(size));
    let mut all = Vec::new();
    for (size, held) in single.chain(several) {
        for pattern in patterns {
            // Several threads with several blocks each tell nothing that these two do not.
            let threads = threads
                .iter()
                .map(|threads| usize::from(*threads))
                .filter(|threads| held == 1 || *threads == 1);
            all.extend(threads.map(|threads| Spec { size, pattern: *pattern, threads, held }));
        }
    }
    all
}

/// What a program does with a block between calloc and free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Nothing.
    Untouched,
    /// Writes the first 16 KiB.
    Head,
    /// Writes one whole page in 64.
    Sparse,
    /// Writes the first half.
    Half,
    /// Writes every byte.
    Full,
}

impl Pattern {
    /// All of them, in the order of the tables.
    pub const ALL: [Pattern; 5] =
        [Pattern::Untouched, Pattern::Head, Pattern::Sparse, Pattern::Half, Pattern::Full];

    /// The name in arguments and tables.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Untouched => "untouched",
            Pattern::Head => "head",
            Pattern::Sparse => "sparse",
            Pattern::Half => "half",
            Pattern::Full => "full",
        }
    }

    /// Bytes that a block of `size` bytes gets dirty by it.
    pub fn dirty(self, size: u64) -> u64 {
        match self {
            Pattern::Untouched => 0,
            Pattern::Head => size.min(16 << 10),
            Pattern::Sparse => size / 64,
            Pattern::Half => size / 2,
            Pattern::Full => size,
        }
    }
}

/// How long and how often.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Budget {
    /// Shortest measured stretch of one worker, milliseconds.
    pub min_ms: u32,
    /// Rounds of a cheap cell: each peer's worker runs once a round.
    pub rounds: usize,
    /// Rounds of a cell that is close to its bound after these, if its time allows.
    pub close_rounds: usize,
    /// Fewest rounds of a dear one.
    pub min_rounds: usize,
    /// Seconds that a cell's further rounds may take together; those of a close one twice as many.
    pub cell_seconds: f64,
    /// Rounds of the whole programs whose rule is one per cent.
    pub fine_rounds: usize,
    /// Rounds of the other whole programs.
    pub program_rounds: usize,
}

impl Budget {
    /// The full run.
    pub const FULL: Budget = Budget {
        min_ms: 30,
        rounds: 5,
        close_rounds: 15,
        min_rounds: 2,
        cell_seconds: 3.0,
        fine_rounds: 61,
        program_rounds: 5,
    };
    /// `--quick`.
    pub const QUICK: Budget = Budget {
        min_ms: 15,
        rounds: 3,
        close_rounds: 3,
        min_rounds: 2,
        cell_seconds: 0.8,
        fine_rounds: 21,
        program_rounds: 3,
    };

    /// Rounds of a cell whose first round took `first` seconds.
    pub fn rounds_after(&self, first: f64) -> usize {
        let more = (self.cell_seconds / first.max(1e-6)) as usize;
        (1 + more).clamp(self.min_rounds, self.rounds)
    }

    /// The same of a cell that is close to its bound.
    pub fn rounds_if_close(&self, first: f64) -> usize {
        let more = (2.0 * self.cell_seconds / first.max(1e-6)) as usize;
        (1 + more).clamp(self.rounds_after(first), self.close_rounds.max(self.rounds))
    }
}

/// The order of `count` contestants in a round: rotated, and turned round every other time, so that nobody always
/// follows the same one.
pub fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).map(|i| (i + round / 2 * 3) % count.max(1)).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// `128K`, `16M`, `2G` or plain bytes. At least 64 KiB: below that there is no large block to measure.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        other => return Err(format!("size {text:?}: unknown unit {other:?}; use K, M or G (1024-based)")),
    };
    let count: u64 = digits.parse().map_err(|_| format!("size {text:?}: write it like 128K, 16M or 1G"))?;
    let size = count.checked_mul(unit).ok_or_else(|| format!("size {text:?} is too large"))?;
    if size < 64 << 10 {
        return Err(format!("size {text:?}: the smallest size measured is 64K"));
    }
    Ok(size)
}

/// The shortest exact spelling of a size.
pub fn size_name(size: u64) -> String {
    match size {
        s if s % (1 << 20) == 0 => format!("{}M", s >> 20),
        s if s % (1 << 10) == 0 => format!("{}K", s >> 10),
        s => s.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip_and_name_what_is_wrong() {
        for name in SIZES.split(',') {
            assert_eq!(size_name(parse_size(name).unwrap()), name);
        }
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert!(parse_size("12Q").unwrap_err().contains("unit"));
        assert!(parse_size("x").is_err() && parse_size("").is_err() && parse_size("1K").is_err());
        assert!(parse_size("99999999999G").unwrap_err().contains("too large"));
    }

    #[test]
    fn several_blocks_are_held_of_the_sizes_that_are_measured() {
        let all = specs(&[128 << 10, 4 << 20], &Pattern::ALL, &[1, 2], true);
        assert_eq!(all.len(), 2 * 5 * 2 + 5);
        assert!(all
            .iter()
            .filter(|spec| spec.held > 1)
            .all(|spec| (spec.size, spec.threads) == (128 << 10, 1)));
        assert_eq!(specs(&[128 << 10], &Pattern::ALL, &[1, 2], false).len(), 10);
    }

    #[test]
    fn every_round_runs_everybody_once_in_another_order() {
        for count in 0..12 {
            for round in 0..10 {
                let mut seen = order(count, round);
                seen.sort_unstable();
                assert_eq!(seen, (0..count).collect::<Vec<_>>());
            }
        }
        assert_ne!(order(5, 0), order(5, 1));
        assert_ne!(order(5, 0), order(5, 2));
    }

    #[test]
    fn dear_cells_get_fewer_rounds() {
        assert_eq!(Budget::FULL.rounds_after(0.01), Budget::FULL.rounds);
        assert_eq!(Budget::FULL.rounds_after(60.0), Budget::FULL.min_rounds);
        assert_eq!(Budget::FULL.rounds_if_close(0.01), Budget::FULL.close_rounds);
        assert_eq!(Budget::FULL.rounds_if_close(60.0), Budget::FULL.min_rounds);
    }
}
