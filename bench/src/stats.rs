//! Medians and what they are worth. Pure; depends on nothing.

/// The median; of an even number, the mean of the middle two. `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match (sorted.len(), sorted.len() % 2) {
        (0, _) => None,
        (_, 1) => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// An interval that holds the true median about 19 times in 20, from order statistics: no shape of the noise is
/// assumed. With fewer than 6 values it is the whole range.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    let last = sorted.len().checked_sub(1)?;
    let n = sorted.len() as f64;
    let low = ((n / 2.0 - 0.98 * n.sqrt()).floor().max(0.0) as usize).min(last);
    Some((sorted[low], sorted[last - low]))
}

/// `a[i] / b[i]` for each round both have.
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_nothing() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn interval_is_the_range_when_short_and_shrinks_when_long() {
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&[2.0, 1.0, 3.0]), Some((1.0, 3.0)));
        let many: Vec<f64> = (0..101).map(f64::from).collect();
        let (low, high) = median_interval(&many).unwrap();
        assert!(low > 35.0 && low < 50.0 && high > 50.0 && high < 65.0, "{low} {high}");
    }

    #[test]
    fn ratios_pair_by_round() {
        assert_eq!(ratios(&[2.0, 6.0, 9.0], &[1.0, 2.0]), vec![2.0, 3.0]);
    }
}
