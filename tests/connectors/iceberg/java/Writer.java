import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.data.GenericAppenderFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Types;

/**
 * Does things to tables at random, as engines do them, and prints after each what Iceberg's own reader finds:
 * `SNAPSHOT <folder> <id> <k:v,k:v,...>`. Arguments: a folder, a format version, `true` if partitioned, a seed and a
 * number of steps, once for each table.
 */
public class Writer {
  private static final Schema SCHEMA =
      new Schema(
          Types.NestedField.optional(1, "k", Types.LongType.get()),
          Types.NestedField.optional(2, "v", Types.StringType.get()),
          Types.NestedField.optional(3, "p", Types.IntegerType.get()));
  private final Table table;
  private final boolean vectors;
  private final boolean partitioned;
  private final Random random;
  private final GenericAppenderFactory writers;
  private final Map<String, Integer> sizes = new LinkedHashMap<>();
  private long next = 0;
  private int files = 0;

  private Writer(Table table, boolean vectors, boolean partitioned, long seed) {
    this.table = table;
    this.vectors = vectors;
    this.partitioned = partitioned;
    this.random = new Random(seed);
    this.writers = new GenericAppenderFactory(SCHEMA, table.spec(), new int[] {1}, SCHEMA.select("k"), null);
  }

  public static void main(String[] given) throws Exception {
    for (int i = 0; i < given.length; i += 5) {
      String folder = given[i];
      JdbcCatalog catalog = new JdbcCatalog();
      catalog.setConf(new Configuration());
      catalog.initialize(
          "default",
          Map.of(
              "uri", "jdbc:sqlite:" + folder + "/lake/catalog.db",
              "warehouse", "file://" + folder + "/lake",
              "jdbc.schema-version", "V1",
              "io-impl", "org.apache.iceberg.hadoop.HadoopFileIO"));
      catalog.createNamespace(Namespace.of("db"));
      boolean partitioned = given[i + 2].equals("true");
      PartitionSpec spec =
          partitioned ? PartitionSpec.builderFor(SCHEMA).identity("p").build() : PartitionSpec.unpartitioned();
      Map<String, String> properties =
          Map.of("format-version", given[i + 1], "write.parquet.compression-codec", "uncompressed");
      Table table = catalog.createTable(TableIdentifier.of("db", "table"), SCHEMA, spec, properties);
      Writer writer = new Writer(table, given[i + 1].equals("3"), partitioned, Long.parseLong(given[i + 3]));
      for (int step = 0; step < Integer.parseInt(given[i + 4]); step++) {
        writer.step(step);
        table.refresh();
        List<String> rows = new ArrayList<>();
        for (Record row : writer.rows()) {
          rows.add(row.getField("k") + ":" + row.getField("v"));
        }
        long id = table.currentSnapshot().snapshotId();
        System.out.println("SNAPSHOT " + folder + " " + id + " " + String.join(",", rows));
      }
      catalog.close();
    }
  }

  private void step(int number) throws Exception {
    List<FileScanTask> tasks = new ArrayList<>();
    try (CloseableIterable<FileScanTask> found = table.newScan().planFiles()) {
      found.forEach(tasks::add);
    }
    List<DataFile> live = tasks.stream().map(FileScanTask::file).toList();
    switch (number == 0 ? 0 : random.nextInt(8)) {
      case 0, 1 -> {
        AppendFiles append = random.nextBoolean() ? table.newAppend() : table.newFastAppend();
        List<Record> rows = new ArrayList<>();
        for (int i = random.nextInt(6); i >= 0; i--) {
          rows.add(row(next, "v" + next++ % 3));
        }
        data(rows).forEach(append::appendFile);
        append.commit();
      }
      case 2, 3 -> {
        RowDelta delta = table.newRowDelta();
        if (table.currentSnapshot() != null) {
          delta.validateFromSnapshot(table.currentSnapshot().snapshotId());
        }
        if (vectors) {
          byVectors(delta, tasks);
        } else {
          byPositions(delta, live);
        }
        delta.commit();
      }
      case 4 -> {
        RowDelta delta = table.newRowDelta();
        byValues(delta, List.of(anyKey(), anyKey()));
        delta.commit();
      }
      case 5 -> { // as Flink writes upserts
        RowDelta delta = table.newRowDelta();
        List<Long> keys = List.of(anyKey(), next++);
        byValues(delta, keys);
        List<Record> rows = keys.stream().map(key -> row(key, "u" + number)).toList();
        data(rows).forEach(delta::addRows);
        delta.commit();
      }
      case 6 -> { // copy-on-write of all
        OverwriteFiles overwrite = table.newOverwrite();
        live.forEach(overwrite::deleteFile);
        List<Record> rows = rows();
        rows.removeIf(row -> random.nextInt(3) == 0);
        data(rows).forEach(overwrite::addFile);
        overwrite.commit();
      }
      default -> { // a compaction
        List<Record> rows = rows();
        if (!live.isEmpty() && !rows.isEmpty()) {
          table
              .newRewrite()
              .validateFromSnapshot(table.currentSnapshot().snapshotId())
              .rewriteFiles(new LinkedHashSet<>(live), new LinkedHashSet<>(data(rows)))
              .commit();
        }
      }
    }
  }

  private long anyKey() {
    return random.nextInt((int) next);
  }

  private static Record row(long key, String value) {
    Record row = GenericRecord.create(SCHEMA);
    row.setField("k", key);
    row.setField("v", value);
    row.setField("p", (int) (key % 2));
    return row;
  }

  private List<Record> rows() throws Exception {
    List<Record> rows = new ArrayList<>();
    try (CloseableIterable<Record> found = IcebergGenerics.read(table).build()) {
      found.forEach(row -> rows.add(row.copy()));
    }
    return rows;
  }

  private PartitionKey partition(long key) {
    PartitionKey partition = new PartitionKey(table.spec(), SCHEMA);
    partition.partition(row(key, ""));
    return partitioned ? partition : null;
  }

  private OutputFileFactory outputs(FileFormat format) {
    return OutputFileFactory.builderFor(table, 1, files++).format(format).build();
  }

  private EncryptedOutputFile output(PartitionKey partition) {
    OutputFileFactory outputs = outputs(FileFormat.PARQUET);
    return partition == null ? outputs.newOutputFile() : outputs.newOutputFile(partition);
  }

  private List<DataFile> data(List<Record> rows) throws Exception {
    Map<Long, List<Record>> parts = new TreeMap<>();
    for (Record row : rows) {
      parts.computeIfAbsent(partitioned ? (Long) row.getField("k") % 2 : 0L, key -> new ArrayList<>()).add(row);
    }
    List<DataFile> made = new ArrayList<>();
    for (long key : parts.keySet()) {
      PartitionKey partition = partition(key);
      DataWriter<Record> writer = writers.newDataWriter(output(partition), FileFormat.PARQUET, partition);
      parts.get(key).forEach(writer::write);
      writer.close();
      made.add(writer.toDataFile());
      sizes.put(writer.toDataFile().location(), parts.get(key).size());
    }
    return made;
  }

  private void byValues(RowDelta delta, Collection<Long> keys) throws Exception {
    Map<Long, List<Long>> parts = new TreeMap<>();
    for (long key : keys) {
      parts.computeIfAbsent(partitioned ? key % 2 : 0L, one -> new ArrayList<>()).add(key);
    }
    for (long part : parts.keySet()) {
      PartitionKey partition = partition(part);
      EqualityDeleteWriter<Record> writer =
          writers.newEqDeleteWriter(output(partition), FileFormat.PARQUET, partition);
      for (long key : parts.get(part)) {
        Record row = GenericRecord.create(SCHEMA.select("k"));
        row.setField("k", key);
        writer.write(row);
      }
      writer.close();
      delta.addDeletes(writer.toDeleteFile());
    }
  }

  private long partOf(DataFile file) {
    return partitioned ? file.partition().get(0, Integer.class) : 0L;
  }

  private void byPositions(RowDelta delta, List<DataFile> live) throws Exception {
    Map<Long, List<String>> parts = new TreeMap<>();
    for (DataFile file : live) {
      parts.computeIfAbsent(partOf(file), key -> new ArrayList<>()).add(file.location());
    }
    for (long part : parts.keySet()) {
      PartitionKey partition = partition(part);
      PositionDeleteWriter<Record> writer =
          writers.newPosDeleteWriter(output(partition), FileFormat.PARQUET, partition);
      int count = 0;
      for (String path : parts.get(part).stream().sorted().toList()) {
        for (int i = 0; i < sizes.get(path); i++) {
          if (random.nextInt(4) == 0) {
            writer.write(PositionDelete.<Record>create().set(path, i, null));
            count++;
          }
        }
      }
      writer.close();
      if (count > 0) {
        delta.addDeletes(writer.toDeleteFile());
      }
    }
  }

  private void byVectors(RowDelta delta, List<FileScanTask> tasks) throws Exception {
    BaseDeleteLoader loader = new BaseDeleteLoader(file -> table.io().newInputFile(file));
    Map<String, List<DeleteFile>> former = new LinkedHashMap<>();
    for (FileScanTask task : tasks) {
      List<DeleteFile> positions =
          task.deletes().stream().filter(one -> one.content() == FileContent.POSITION_DELETES).toList();
      former.put(task.file().location(), positions);
    }
    BaseDVFileWriter writer =
        new BaseDVFileWriter(
            outputs(FileFormat.PUFFIN),
            path -> former.get(path).isEmpty() ? null : loader.loadPositionDeletes(former.get(path), path));
    for (FileScanTask task : tasks) {
      String path = task.file().location();
      for (int i = 0; i < sizes.get(path); i++) {
        if (random.nextInt(4) == 0) {
          writer.delete(path, i, table.spec(), partition(partOf(task.file())));
        }
      }
    }
    writer.close();
    writer.result().deleteFiles().forEach(delta::addDeletes);
    writer.result().rewrittenDeleteFiles().forEach(delta::removeDeletes);
  }
}
