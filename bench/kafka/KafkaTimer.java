import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;

/**
 * Kafka's own timer on the same work as everybody else. Reads the name of a file from each line of its input, lives the
 * life that it describes, and answers with a line "operation=ns a timer;...;checksum=...".
 *
 * The timer's wheel starts so far in the past that every timer, added with a delay into the past as well, is due by the
 * system's clock as soon as somebody looks, but in the wheel's own time lies as far ahead as it should: the way to have
 * 100 s pass at once without a change to Kafka.
 */
public class KafkaTimer {
    static final long PAST_MS = 1_000_000;
    static final long PAIR_DELAY_MS = 30_000;

    static final class Task extends TimerTask {
        final int index;
        final AtomicLong count;
        final AtomicLong sum;

        Task(long delayMs, int index, AtomicLong count, AtomicLong sum) {
            super(delayMs - PAST_MS);
            this.index = index;
            this.count = count;
            this.sum = sum;
        }

        @Override
        public void run() {
            sum.addAndGet(index);
            count.incrementAndGet();
        }
    }

    public static void main(String[] arguments) throws Exception {
        int wheelSize = Integer.parseInt(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(live(numbers(line), wheelSize));
        }
    }

    static LongBuffer numbers(String file) throws IOException {
        return ByteBuffer.wrap(Files.readAllBytes(Path.of(file))).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
    }

    static String live(LongBuffer input, int wheelSize) throws Exception {
        long[] delays = next(input);
        long[] cancelled = next(input);
        long[] moved = next(input);
        long[] movedTo = next(input);
        AtomicLong count = new AtomicLong();
        AtomicLong sum = new AtomicLong();
        Task[] tasks = new Task[delays.length];
        System.gc();
        SystemTimer timer = new SystemTimer("bench", 1, wheelSize, Time.SYSTEM.hiResClockMs() - PAST_MS);

        long start = System.nanoTime();
        for (int i = 0; i < delays.length; i++) {
            tasks[i] = new Task(delays[i], i, count, sum);
            timer.add(tasks[i]);
        }
        long added = System.nanoTime();
        for (int i = 0; i < cancelled.length; i++) {
            Task task = new Task(PAIR_DELAY_MS, -1, count, sum);
            timer.add(task);
            task.cancel();
        }
        long paired = System.nanoTime();
        for (int i = 0; i < moved.length; i++) {
            int index = (int) moved[i];
            tasks[index].cancel();
            tasks[index] = new Task(movedTo[i], index, count, sum);
            timer.add(tasks[index]);
        }
        long rescheduled = System.nanoTime();
        for (long index : cancelled) {
            tasks[(int) index].cancel();
        }
        long done = System.nanoTime();
        long expected = delays.length - cancelled.length;
        while (timer.advanceClock(0)) {
            // takes every bucket that is due: all of them
        }
        while (count.get() < expected) {
            Thread.onSpinWait();
        }
        long expired = System.nanoTime();
        timer.close();
        return "add=" + (double) (added - start) / delays.length
            + ";add + cancel=" + (double) (paired - added) / cancelled.length
            + ";reschedule=" + (double) (rescheduled - paired) / moved.length
            + ";cancel=" + (double) (done - rescheduled) / cancelled.length
            + ";expire=" + (double) (expired - done) / expected
            + ";checksum=" + sum.get();
    }

    static long[] next(LongBuffer input) {
        long[] numbers = new long[(int) input.get()];
        input.get(numbers);
        return numbers;
    }
}
