import com.github.shyiko.mysql.binlog.BinaryLogFileReader;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.EventHeaderV4;
import com.github.shyiko.mysql.binlog.event.EventType;
import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.TransactionPayloadEventData;
import com.github.shyiko.mysql.binlog.event.UpdateRowsEventData;
import com.github.shyiko.mysql.binlog.event.WriteRowsEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.ChecksumType;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.json.JsonBinary;
import com.github.shyiko.mysql.binlog.io.ByteArrayInputStream;
import com.github.luben.zstd.Zstd;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.io.RandomAccessFile;
import java.io.SequenceInputStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/**
 * Prints the row changes in files of a binary log, as the library of Debezium reads them.
 *
 * Each line of the input is a file, the offset where it begins, and the offset where it ends, with tabs between; the
 * answer is a JSON array for each row: table, operation, row before, row after; then an empty line. A row is an object
 * of texts: numbers in decimal, bytes in hexadecimal after `x`, texts after `s`, JSON after `j`; NULL is null.
 *
 * The language is what Janino compiles: no lambdas, and casts in the place of generic types.
 */
public class Judge {
    private static final int JSON = 245;

    private final EventDeserializer events = new EventDeserializer();
    private final Map tables = new HashMap();
    private final PrintWriter out =
        new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8), false);

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line = in.readLine();
        while (line != null) {
            String[] parts = line.split("\t");
            Judge judge = new Judge();
            judge.read(parts[0], Long.parseLong(parts[1]), Long.parseLong(parts[2]));
            line = in.readLine();
        }
    }

    private Judge() {
        events.setCompatibilityMode(
            EventDeserializer.CompatibilityMode.DATE_AND_TIME_AS_LONG_MICRO,
            new EventDeserializer.CompatibilityMode[] {
                EventDeserializer.CompatibilityMode.CHAR_AND_BINARY_AS_BYTE_ARRAY,
                EventDeserializer.CompatibilityMode.INVALID_DATE_AND_TIME_AS_MIN_VALUE
            });
    }

    private void read(String file, long start, long end) throws Exception {
        RandomAccessFile log = new RandomAccessFile(file, "r");
        log.seek(13);
        byte[] first = new byte[4 + Integer.reverseBytes(log.readInt())];
        log.seek(0);
        log.readFully(first);
        log.close();
        // The magic number and the description of the format, then the events from the start on.
        FileInputStream rest = new FileInputStream(file);
        rest.getChannel().position(start);
        BinaryLogFileReader reader = new BinaryLogFileReader(
            new SequenceInputStream(new java.io.ByteArrayInputStream(first), new BufferedInputStream(rest, 1 << 16)),
            events);
        reader.readEvent();
        long at = start;
        while (at < end) {
            Event event = reader.readEvent();
            if (event == null) {
                break;
            }
            at += ((EventHeaderV4) event.getHeader()).getEventLength();
            take(event);
        }
        reader.close();
        out.println();
        out.flush();
    }

    private void take(Event event) throws Exception {
        EventData data = event.getData();
        EventType type = event.getHeader().getEventType();
        if (data instanceof TableMapEventData) {
            tables.put(Long.valueOf(((TableMapEventData) data).getTableId()), data);
        } else if (data instanceof WriteRowsEventData) {
            WriteRowsEventData rows = (WriteRowsEventData) data;
            List found = rows.getRows();
            for (int index = 0; index < found.size(); index++) {
                row(rows.getTableId(), "INSERT", null, (Object[]) found.get(index));
            }
        } else if (data instanceof DeleteRowsEventData) {
            DeleteRowsEventData rows = (DeleteRowsEventData) data;
            List found = rows.getRows();
            for (int index = 0; index < found.size(); index++) {
                row(rows.getTableId(), "DELETE", (Object[]) found.get(index), null);
            }
        } else if (data instanceof UpdateRowsEventData) {
            UpdateRowsEventData rows = (UpdateRowsEventData) data;
            List found = rows.getRows();
            for (int index = 0; index < found.size(); index++) {
                Map.Entry both = (Map.Entry) found.get(index);
                row(rows.getTableId(), "UPDATE", (Object[]) both.getKey(), (Object[]) both.getValue());
            }
        } else if (data instanceof TransactionPayloadEventData) {
            payload((TransactionPayloadEventData) data);
        } else if (type == EventType.UNKNOWN) {
            out.println("[\"an event of an unknown type\"]");
        }
    }

    /** The library reads the events of a payload with a reader of its own, whose dates have milliseconds. */
    private void payload(TransactionPayloadEventData data) throws Exception {
        byte[] plain = Zstd.decompress(data.getPayload(), (int) data.getUncompressedSize());
        ByteArrayInputStream in = new ByteArrayInputStream(plain);
        events.setChecksumType(ChecksumType.NONE);
        while (in.available() > 0) {
            take(events.nextEvent(in));
        }
        events.setChecksumType(ChecksumType.CRC32);
    }

    private void row(long id, String operation, Object[] before, Object[] after) throws Exception {
        TableMapEventData table = (TableMapEventData) tables.get(Long.valueOf(id));
        StringBuilder line = new StringBuilder("[");
        quote(line, table.getDatabase() + "." + table.getTable());
        line.append(",\"").append(operation).append("\",");
        image(line, table, before);
        line.append(',');
        image(line, table, after);
        out.println(line.append(']'));
    }

    private void image(StringBuilder line, TableMapEventData table, Object[] values) throws Exception {
        if (values == null) {
            line.append("null");
            return;
        }
        List names = table.getEventMetadata().getColumnNames();
        for (int index = 0; index < values.length; index++) {
            line.append(index == 0 ? '{' : ',');
            quote(line, (String) names.get(index));
            line.append(':');
            if (values[index] == null) {
                line.append("null");
            } else {
                quote(line, text(values[index], (table.getColumnTypes()[index] & 255) == JSON));
            }
        }
        line.append('}');
    }

    private static String text(Object value, boolean isJson) throws Exception {
        if (value instanceof byte[]) {
            byte[] bytes = (byte[]) value;
            return isJson ? "j" + JsonBinary.parseAsString(bytes) : hex(bytes);
        }
        if (value instanceof BitSet) {
            long[] words = ((BitSet) value).toLongArray();
            return words.length == 0 ? "0" : Long.toUnsignedString(words[0]);
        }
        if (value instanceof BigDecimal) {
            return ((BigDecimal) value).toPlainString();
        }
        if (value instanceof float[]) {
            float[] numbers = (float[]) value;
            ByteBuffer bytes = ByteBuffer.allocate(4 * numbers.length).order(ByteOrder.LITTLE_ENDIAN);
            for (int index = 0; index < numbers.length; index++) {
                bytes.putFloat(numbers[index]);
            }
            return hex(bytes.array());
        }
        return value instanceof String ? "s" + value : String.valueOf(value);
    }

    private static String hex(byte[] bytes) {
        return "x" + HexFormat.of().formatHex(bytes);
    }

    private static void quote(StringBuilder line, String text) {
        line.append('"');
        for (int index = 0; index < text.length(); index++) {
            char letter = text.charAt(index);
            if (letter < ' ' || letter == '"' || letter == '\\' || Character.isSurrogate(letter)) {
                line.append(String.format("\\u%04x", new Object[] {Integer.valueOf(letter)}));
            } else {
                line.append(letter);
            }
        }
        line.append('"');
    }
}
