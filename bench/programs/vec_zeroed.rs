//! `vec![0u8; n]` in a loop. usage: vec_zeroed BYTES untouched|full; prints ns=NANOSECONDS_A_VECTOR.
use std::hint::black_box;
use std::time::Instant;

fn once(size: usize, fill: bool) {
    let mut vector = black_box(vec![0u8; black_box(size)]);
    if fill {
        vector.fill(1);
    }
    black_box(&vector);
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let size: usize = arguments[1].parse().expect("BYTES");
    let fill = arguments[2] == "full";
    for _ in 0..8 {
        once(size, fill);
    }
    let (began, mut count) = (Instant::now(), 0u32);
    while began.elapsed().as_millis() < 50 {
        once(size, fill);
        count += 1;
    }
    println!("ns={:.1}", began.elapsed().as_nanos() as f64 / f64::from(count));
}
