// Buffer.alloc and zero-filled typed arrays under garbage collection.
let bad = 0, sum = 0;
for (let i = 0; i < 3000; i++) {
  const b = Buffer.alloc(150 * 1024 + (i % 64) * 8192);
  if (b[0] | b[b.length >> 1] | b[b.length - 1]) bad++;
  b.fill(i & 255, i % 4096, 60000);
  const f = new Float64Array(40000);
  if (f[0] || f[39999]) bad++;
  f[i % 40000] = i;
  sum += b[50000] + f[i % 40000];
}
const all = Buffer.concat(Array.from({ length: 50 }, (_, i) => Buffer.alloc(200000, i)));
console.log(bad, sum, require('crypto').createHash('sha256').update(all).digest('hex'));
process.exit(bad ? 3 : 0);
