import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import org.apache.kafka.connect.source.SourceRecord;

/** Debezium's embedded engine: reads so many changes of a table, and then one of another that marks the end. */
public final class LogReader {
    private static long count, begun, cpuAtBegin;

    /** Arguments: properties, table, mark, changes, file of figures: nanoseconds of the clock and of the CPU. */
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.load(Files.newBufferedReader(Path.of(arguments[0])));
        String suffix = "." + arguments[1];
        String mark = "." + arguments[2];
        long expected = Long.parseLong(arguments[3]);
        CountDownLatch done = new CountDownLatch(1);
        DebeziumEngine<RecordChangeEvent<SourceRecord>> engine =
            DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                .using(properties)
                .using((success, message, error) -> {
                    if (!success) {
                        System.err.println(message);
                        if (error != null) {
                            error.printStackTrace();
                        }
                        System.exit(1);
                    }
                })
                .notifying((records, committer) -> {
                    for (RecordChangeEvent<SourceRecord> event : records) {
                        if (event.record().topic().endsWith(suffix)) {
                            if (count++ == 0) {
                                begun = System.nanoTime();
                                cpuAtBegin = cpu();
                            }
                            if (count == expected) {
                                String figures = (System.nanoTime() - begun) + " " + (cpu() - cpuAtBegin);
                                write(arguments[4], figures);
                            }
                        } else if (event.record().topic().endsWith(mark) && count >= expected) {
                            done.countDown();
                        }
                        committer.markProcessed(event);
                    }
                    committer.markBatchFinished();
                })
                .build();
        var executor = Executors.newSingleThreadExecutor();
        executor.execute(engine);
        done.await();
        engine.close();
        executor.shutdown();
    }

    private static void write(String file, String text) {
        try {
            Files.writeString(Path.of(file), text);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static long cpu() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
    }
}
