// Buffer.alloc in a loop, 16 KiB written. usage: node_buffer.js BYTES; prints ns=NANOSECONDS_A_BUFFER.
// The collector decides when a buffer is freed, so many can be live at once: this is the least favourable program.
const size = Number(process.argv[2]);
function loop(count) {
  const began = process.hrtime.bigint();
  for (let i = 0; i < count; i++) Buffer.alloc(size).fill(1, 0, 16384);
  return Number(process.hrtime.bigint() - began) / count;
}
loop(20);
console.log(`ns=${loop(100).toFixed(1)}`);
