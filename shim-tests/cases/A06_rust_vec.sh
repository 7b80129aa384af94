#!/bin/bash
# A06_rust_vec | A | rust-lang/rust#38723, rust-lang/rust#40409 | vec![0u8;n] in a Rust program
. "$(dirname "$0")/lib.sh"
command -v rustc >/dev/null || skip rustc; cat >$d/t.rs <<'R'
use std::time::Instant; use std::hint::black_box;
fn main(){ let n=2usize<<20; let mut m=vec![1u8;n]; let t=Instant::now(); for i in 0..50u8{m.fill(black_box(i));black_box(&m);} let z=t.elapsed().as_secs_f64()/50.0;
 let h:Vec<_>=(0..2).map(|_|std::thread::spawn(move||{let t=Instant::now(); for _ in 0..500{let mut v=black_box(vec![0u8;n]); assert!(v[n/2]==0&&v[n-1]==0); v[n/2]=1; black_box(&v);} t.elapsed().as_secs_f64()/500.0})).collect();
 let c=h.into_iter().map(|x|x.join().unwrap()).fold(0.0,f64::max); println!("{:.1} us per vec, memset {:.1} us",c*1e6,z*1e6); std::process::exit((c>z*0.6) as i32); }
R
rustc -O -o $d/t $d/t.rs 2>/dev/null || bad compile; run $d/t; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc"
