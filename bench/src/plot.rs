//! The plot: a panel for each pattern and thread count, time over size, both logarithmic.

use crate::plan::{size_name, Pattern};
use crate::results::{Results, BARE};
use anyhow::{anyhow, Result};
use plotters::prelude::*;

const PANEL: (u32, u32) = (560, 300);
const LEGEND: u32 = 40;
/// Colours that stay apart for colour-blind eyes (Okabe and Ito); ours is the strongest.
const COLOURS: [(&str, RGBColor); 10] = [
    ("fastcalloc", RGBColor(213, 94, 0)),
    ("fastcalloc-retain", RGBColor(230, 159, 0)),
    ("fastcalloc-nocache", RGBColor(180, 160, 120)),
    ("glibc", RGBColor(0, 0, 0)),
    ("glibc-mmap", RGBColor(130, 130, 130)),
    ("jemalloc", RGBColor(0, 114, 178)),
    ("mimalloc2", RGBColor(204, 121, 167)),
    ("mimalloc3", RGBColor(120, 60, 130)),
    ("tcmalloc", RGBColor(0, 158, 115)),
    (BARE, RGBColor(86, 180, 233)),
];

fn colour(name: &str) -> RGBColor {
    COLOURS.iter().find(|(known, _)| *known == name).map_or(RGBColor(90, 90, 90), |(_, colour)| *colour)
}

/// The points of one line, megabytes (2^20) and microseconds.
fn points(r: &Results, peer: &str, pattern: Pattern, threads: usize) -> Vec<(f64, f64)> {
    let cells =
        r.cells.iter().filter(|cell| (cell.pattern, cell.threads, cell.held) == (pattern, threads, 1));
    let mut points: Vec<(f64, f64)> = cells
        .filter_map(|cell| Some((cell.size as f64 / 1_048_576.0, cell.ns(peer)? / 1e3)))
        .filter(|(_, us)| *us > 0.0)
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// The plot as SVG text.
pub fn svg(r: &Results) -> Result<String> {
    let mut threads: Vec<usize> = r.cells.iter().map(|cell| cell.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let patterns: Vec<Pattern> =
        Pattern::ALL.into_iter().filter(|p| r.cells.iter().any(|cell| cell.pattern == *p)).collect();
    let (columns, rows) = (threads.len().max(1), patterns.len().max(1));
    let mut names: Vec<&str> = r.peers.iter().map(|peer| peer.name.as_str()).collect();
    names.push(BARE);
    let mut out = String::new();
    {
        let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32 + LEGEND);
        let root = SVGBackend::with_string(&mut out, size).into_drawing_area();
        root.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
        let (top, below) = root.split_vertically(LEGEND);
        legend(&top, &names, size.0)?;
        let panels = below.split_evenly((rows, columns));
        for (row, pattern) in patterns.iter().enumerate() {
            for (column, threads) in threads.iter().enumerate() {
                if let Some(area) = panels.get(row * columns + column) {
                    panel(area, r, &names, *pattern, *threads)?;
                }
            }
        }
        root.present().map_err(|error| anyhow!("{error}"))?;
    }
    Ok(out)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn legend(area: &Area, names: &[&str], width: u32) -> Result<()> {
    let step = width as i32 / names.len().max(1) as i32;
    for (index, name) in names.iter().enumerate() {
        let left = index as i32 * step + 6;
        let size = if step > 110 { 13 } else { 9 };
        let text = Text::new((*name).to_owned(), (left + 18, 14), ("sans-serif", size).into_font());
        area.draw(&Rectangle::new([(left, 16), (left + 14, 20)], colour(name).filled()))
            .and_then(|()| area.draw(&text))
            .map_err(|error| anyhow!("{error}"))?;
    }
    Ok(())
}

fn panel(area: &Area, r: &Results, names: &[&str], pattern: Pattern, threads: usize) -> Result<()> {
    let lines: Vec<(&str, Vec<(f64, f64)>)> =
        names.iter().map(|name| (*name, points(r, name, pattern, threads))).collect();
    let all = || lines.iter().flat_map(|(_, points)| points);
    let range = |pick: fn(&(f64, f64)) -> f64| {
        let low = all().map(pick).fold(f64::INFINITY, f64::min);
        let high = all().map(pick).fold(0.0, f64::max);
        (low * 0.8, (high * 1.25).max(low * 1.6))
    };
    if all().next().is_none() {
        return Ok(());
    }
    let ((left, right), (bottom, top)) = (range(|p| p.0), range(|p| p.1));
    let plural = if threads == 1 { "" } else { "s" };
    let title = format!("{}, {threads} thread{plural}: time per calloc + use + free", pattern.name());
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 14))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(56)
        .build_cartesian_2d((left..right).log_scale(), (bottom..top).log_scale())
        .map_err(|error| anyhow!("{error}"))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_label_formatter(&|mib| size_name((mib * 1024.0).round() as u64 * 1024))
        .y_label_formatter(&|us| crate::table::time(us * 1e3))
        .draw()
        .map_err(|error| anyhow!("{error}"))?;
    for (name, points) in lines {
        let width = if name == "fastcalloc" { 3 } else { 1 };
        let style = colour(name).stroke_width(width);
        let dots = points.clone();
        chart.draw_series(LineSeries::new(points, style)).map_err(|error| anyhow!("{error}"))?;
        let dots = dots.into_iter().map(|point| Circle::new(point, 2, colour(name).filled()));
        chart.draw_series(dots).map_err(|error| anyhow!("{error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::PeerInfo;
    use crate::verdict::tests::{cell, results};

    #[test]
    fn draws_a_line_for_each_peer_and_a_panel_for_each_pattern() {
        let ns = |scale: f64| [("glibc", 1000.0 * scale), ("fastcalloc", 10.0 * scale)];
        let mut r = results(vec![
            cell(1 << 20, Pattern::Untouched, 1, &ns(1.0)),
            cell(16 << 20, Pattern::Untouched, 1, &ns(9.0)),
            cell(16 << 20, Pattern::Full, 2, &ns(9.0)),
        ]);
        let peer = |name: &str| PeerInfo {
            name: name.into(),
            version: String::new(),
            library: String::new(),
            env: vec![],
        };
        r.peers = vec![peer("glibc"), peer("fastcalloc")];
        let svg = svg(&r).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.matches("<polyline").count() >= 2, "{svg}");
        assert!(svg.contains("untouched, 1 thread:") && svg.contains("full, 2 threads:"), "{svg}");
    }

    #[test]
    fn nothing_measured_is_an_empty_picture_and_no_panic() {
        assert!(svg(&results(Vec::new())).is_ok());
    }
}
