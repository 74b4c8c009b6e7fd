// Started from its source, so the compiler runs first. Then threads of a pool, timers, garbage for the collector, a socket on loopback.
import java.io.*;
import java.net.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

public class Threads {
    static String hash(String text) throws Exception {
        return String.format("%064x", new java.math.BigInteger(1, MessageDigest.getInstance("SHA-256").digest(text.getBytes())));
    }

    static String compute(int n) throws Exception {
        Map<String, List<Integer>> garbage = new TreeMap<>();
        for (int i = 0; i < 60000; i++) {
            garbage.computeIfAbsent("key" + (i * 31 + n) % 997, k -> new ArrayList<>()).add(i);
        }
        return hash(garbage.toString());
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);
        AtomicInteger ticks = new AtomicInteger();
        clock.scheduleAtFixedRate(ticks::incrementAndGet, 1, 3, TimeUnit.MILLISECONDS);
        List<Future<String>> work = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            int n = i;
            work.add(pool.submit(() -> compute(n)));
        }
        StringBuilder out = new StringBuilder();
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread echo = new Thread(() -> {
                try (Socket s = server.accept(); BufferedReader in = new BufferedReader(new InputStreamReader(s.getInputStream()))) {
                    for (String line; (line = in.readLine()) != null;) {
                        s.getOutputStream().write((line.toUpperCase() + "\n").getBytes());
                    }
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
            echo.start();
            try (Socket s = new Socket(server.getInetAddress(), server.getLocalPort());
                 BufferedReader in = new BufferedReader(new InputStreamReader(s.getInputStream()))) {
                for (int i = 0; i < 40; i++) {
                    s.getOutputStream().write(("hello" + i + "\n").getBytes());
                    out.append(in.readLine());
                    Thread.sleep(2);
                }
            }
            echo.join();
        }
        for (Future<String> f : work) {
            out.append(f.get());
        }
        pool.shutdown();
        clock.shutdown();
        clock.awaitTermination(10, TimeUnit.SECONDS);
        System.out.println(hash(out.toString()) + " " + (ticks.get() > 0));
    }
}
