// Direct buffers, zip and threads of a JVM.
import java.nio.ByteBuffer;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

public class Buffers {
    public static void main(String[] args) throws Exception {
        long[] sums = new long[4];
        Thread[] threads = new Thread[4];
        for (int t = 0; t < 4; t++) {
            final int id = t;
            threads[t] = new Thread(() -> {
                CRC32 crc = new CRC32();
                for (int i = 0; i < 80; i++) {
                    ByteBuffer b = ByteBuffer.allocateDirect(200000 + i * 9000);
                    for (int k = 0; k < b.capacity(); k += 4096) if (b.get(k) != 0) System.exit(3);
                    b.put(i * 100, (byte) i);
                    byte[] out = new byte[1000];
                    Deflater deflater = new Deflater();
                    deflater.setInput(b);
                    deflater.finish();
                    crc.update(out, 0, deflater.deflate(out));
                    deflater.end();
                }
                sums[id] = crc.getValue();
            });
            threads[t].start();
        }
        for (Thread t : threads) t.join();
        for (long s : sums) System.out.println(s);
    }
}
