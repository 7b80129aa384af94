//! What `top` shows, and how it is drawn.

use std::collections::HashMap;
use std::time::Instant;

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style as Look};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use ratatui::Frame;
use record::{Counts, Kind, Sum, BUCKETS};

use crate::report::draw::{bar, bucket, bytes, number, pad, percent, plain};
use crate::report::stats::{large_calls, large_total};
use crate::report::{headline, Loaded, Style};

/// One process of the list.
type Name = (u64, u32, u64);

/// Which keys there are.
const KEYS: &str = "q quit   Tab, 1-4 kind   c by calls   b by bytes";

/// The state of the screen.
pub struct View {
    style: Style,
    loaded: Loaded,
    total: Counts,
    /// Which kind's sizes are shown.
    pub kind: usize,
    /// Whether processes with the most calls come first.
    pub by_calls: bool,
    /// The line at the bottom.
    keys: &'static str,
    at: Option<Instant>,
    rates: Rates,
}

/// Per second, since the reading before.
#[derive(Default)]
struct Rates {
    /// Was there one?
    known: bool,
    kinds: Vec<Sum>,
    processes: HashMap<Name, Sum>,
}

impl View {
    /// An empty one.
    pub fn new(style: Style) -> Self {
        View {
            style,
            loaded: Loaded::default(),
            total: Counts::default(),
            kind: Kind::Calloc as usize,
            by_calls: false,
            keys: KEYS,
            at: None,
            rates: Rates::default(),
        }
    }

    /// One with another line about keys.
    pub fn with_keys(style: Style, keys: &'static str) -> Self {
        View { keys, ..View::new(style) }
    }

    /// Takes a new reading, of the moment `now`.
    pub fn update(&mut self, loaded: Loaded, now: Instant) {
        let total = loaded.total();
        let seconds = self.at.map(|at| now.duration_since(at).as_secs_f64());
        let rate = |before: Sum, after: Sum| {
            let per =
                |a: u64, b: u64| seconds.map_or(0, |s| (b.saturating_sub(a) as f64 / s.max(1e-3)) as u64);
            Sum { count: per(before.count, after.count), bytes: per(before.bytes, after.bytes) }
        };
        let before: HashMap<Name, Sum> =
            self.loaded.processes.iter().map(|p| ((p.started_ns, p.pid, p.sequence), p.total())).collect();
        self.rates = Rates {
            known: seconds.is_some(),
            kinds: total
                .kinds
                .iter()
                .zip(&self.total.kinds)
                .map(|(b, a)| rate(a.total(), b.total()))
                .collect(),
            processes: (loaded.processes.iter())
                .map(|p| ((p.started_ns, p.pid, p.sequence), p.total()))
                .map(|(name, sum)| (name, rate(before.get(&name).copied().unwrap_or_default(), sum)))
                .collect(),
        };
        (self.loaded, self.total, self.at) = (loaded, total, Some(now));
    }
}

impl Rates {
    /// A rate as text, if it is known.
    fn said(&self, text: String) -> String {
        if self.known {
            text
        } else {
            "-".into()
        }
    }
}

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let rows = (0..BUCKETS).filter(|i| view.total.kinds[view.kind].buckets[*i].count != 0).count() as u16;
    let [head, kinds, sizes, processes, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(8),
        Constraint::Length((rows + 2).min(frame.area().height.saturating_sub(16))),
        Constraint::Min(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let title = if view.loaded.processes.is_empty() && view.keys != KEYS {
        "no record yet".into()
    } else if view.loaded.processes.is_empty() {
        "no record yet; start a program with fastcalloc-run -o DIR".into()
    } else {
        headline(&view.loaded, &view.total)
    };
    show(frame, head, vec![bold(title)]);
    show(frame, kinds, kinds_lines(view));
    show(frame, sizes, size_lines(view, usize::from(sizes.width), usize::from(sizes.height)));
    show(frame, processes, process_lines(view, usize::from(processes.width), usize::from(processes.height)));
    show(frame, keys, vec![Line::styled(view.keys, Look::new().add_modifier(Modifier::DIM))]);
}

fn show(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>) {
    frame.render_widget(Paragraph::new(lines), area);
}

fn bold(text: String) -> Line<'static> {
    Line::styled(text, Look::new().add_modifier(Modifier::BOLD))
}

fn kinds_lines(view: &View) -> Vec<Line<'static>> {
    let mut lines = vec![
        Line::default(),
        bold(format!(
            "  {:<8}{:>16}{:>10}{:>13}{:>14}{:>15}",
            "kind", "calls", "failed", "bytes", "calls/s", "bytes/s"
        )),
    ];
    for kind in Kind::ALL {
        let k = &view.total.kinds[*kind as usize];
        let (sum, rate) = (k.total(), view.rates.kinds.get(*kind as usize).copied().unwrap_or_default());
        let mark = if *kind as usize == view.kind { ">" } else { " " };
        lines.push(Line::raw(format!(
            "{mark} {:<8}{:>16}{:>10}{:>13}{:>14}{:>15}",
            kind.name(),
            number(sum.count),
            number(k.failed),
            bytes(sum.bytes),
            view.rates.said(number(rate.count)),
            view.rates.said(bytes(rate.bytes))
        )));
    }
    lines.push(Line::raw(format!("  {:<8}{:>16}", "free", number(view.total.frees))));
    let l = large_total(&view.total);
    lines.push(Line::raw(format!(
        "  large callocs: {}, {} alive, clearing avoided {} ({}), cleared {}",
        number(large_calls(&l)),
        bytes(view.total.live),
        bytes(l.avoided),
        percent(l.avoided, l.avoided.saturating_add(l.cleared)),
        bytes(l.cleared)
    )));
    lines
}

/// The histogram of the chosen kind; if it is too long, its largest sizes.
fn size_lines(view: &View, width: usize, height: usize) -> Vec<Line<'static>> {
    let k = &view.total.kinds[view.kind];
    let filled: Vec<_> = (0..BUCKETS).filter(|i| k.buckets[*i].count != 0).collect();
    let most = k.buckets.iter().map(|b| b.count).max().unwrap_or(0);
    let most_bytes = k.buckets.iter().map(|b| b.bytes).max().unwrap_or(0);
    let bars = width.saturating_sub(2 + 10 + 14 + 1 + 12 + 1) / 2;
    let name = Kind::ALL.get(view.kind).map_or("", |k| k.name());
    let room = height.saturating_sub(2);
    let hidden = filled.len().saturating_sub(room);
    let mut title = format!("  {name} by size");
    if hidden != 0 {
        title.push_str(&format!(" ({hidden} smaller sizes are not shown)"));
    }
    let mut lines = vec![Line::default(), bold(title)];
    for i in filled.into_iter().skip(hidden) {
        let b = &k.buckets[i];
        lines.push(Line::from(vec![
            Span::raw(format!("  {}{:>14} ", bucket(i, view.style.unicode), number(b.count))),
            Span::styled(
                pad(&bar(b.count, most, bars, view.style.unicode), bars),
                Look::new().fg(Color::Cyan),
            ),
            Span::raw(format!("{:>12} ", bytes(b.bytes))),
            Span::styled(bar(b.bytes, most_bytes, bars, view.style.unicode), Look::new().fg(Color::Green)),
        ]));
    }
    lines
}

fn process_lines(view: &View, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut list: Vec<_> = view.loaded.processes.iter().map(|p| (p.total(), p)).collect();
    list.sort_by_key(|(sum, p)| {
        let order = if view.by_calls { (sum.count, sum.bytes) } else { (sum.bytes, sum.count) };
        (std::cmp::Reverse(order), p.started_ns, p.pid)
    });
    let titles = format!(
        "{:>8}{:>15}{:>12}{:>12}{:>14}  {:<9}program",
        "pid", "calls", "bytes", "calloc", "bytes/s", "state"
    );
    let mut lines = vec![Line::default(), bold(titles)];
    for (sum, p) in list.into_iter().take(height.saturating_sub(2)) {
        let rate = view.rates.processes.get(&(p.started_ns, p.pid, p.sequence)).copied().unwrap_or_default();
        let line = format!(
            "{:>8}{:>15}{:>12}{:>12}{:>14}  {:<9}{}",
            p.pid,
            number(sum.count),
            bytes(sum.bytes),
            bytes(p.counts.kinds[Kind::Calloc as usize].total().bytes),
            view.rates.said(bytes(rate.bytes)),
            p.fate(),
            plain(&p.command(), width.saturating_sub(72), view.style.unicode)
        );
        let look = if p.state() == "running" { Look::new() } else { Look::new().add_modifier(Modifier::DIM) };
        lines.push(Line::styled(line, look));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::report::testing::record;
    use crate::report::{Color, Process};

    /// What was counted before the first reading is no rate: nobody knows how long it took.
    #[test]
    fn rates_are_known_from_the_second_reading_on() {
        let mut view = View::new(Style::with(&std::io::stdout(), Color::Never));
        let at = Instant::now();
        let mut read = |calls, seconds| {
            let process = Process::new(Path::new("a"), &record::parse(&record(calls)).unwrap());
            view.update(
                Loaded { processes: vec![process], ..Loaded::default() },
                at + Duration::from_secs(seconds),
            );
            (kinds_lines(&view)[2].to_string(), process_lines(&view, 100, 10)[2].to_string())
        };
        let (kind, process) = read(3, 0);
        assert!(kind.ends_with(" 30 B             -              -"), "{kind}");
        assert!(process.contains(" 0 B             -  "), "{process}");
        let (kind, process) = read(23, 2);
        assert!(kind.ends_with(" 10          100 B"), "{kind}");
        assert!(process.contains(" 100 B  "), "{process}");
    }
}
