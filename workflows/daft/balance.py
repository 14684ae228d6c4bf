"""Keeps some chats of each answer, and counts the chats of each answer. Needs `daft` (pip).

usage: balance.py ROWS KEPT COUNTS MOST

ROWS is the folder of the input. KEPT and COUNTS are the folders of the outputs; each gets one `data.parquet`.
"""
import json
import os
import sys
from pathlib import Path

import daft
import pyarrow
import pyarrow.parquet as parquet
from daft import Window, col
from daft.functions import row_number


def write(rows, folder, schema):
    """Writes rows batch by batch, in the types of a schema; returns their number."""
    count = 0
    with parquet.ParquetWriter(folder / "data.parquet", schema, compression="zstd") as file:
        for batch in rows.to_arrow_iter():
            file.write_batch(batch.cast(schema))
            count += batch.num_rows
    return count


def main():
    source, kept, counts = (Path(folder) for folder in sys.argv[1:4])
    most = int(sys.argv[4])
    rows = daft.read_parquet(str(source / "data.parquet"))
    place = row_number().over(Window().partition_by("answer").order_by("id"))
    # Sorted, because equal inputs must give equal files.
    balanced = rows.with_column("place", place).where(col("place") <= most).exclude("place").sort("id")
    number = write(balanced, kept, parquet.read_schema(source / "data.parquet"))
    chats = rows.groupby("answer").agg(col("id").count().alias("chats")).sort("answer")
    write(chats, counts, pyarrow.schema([("answer", pyarrow.string()), ("chats", pyarrow.int64())]))
    with open(os.environ["TRAINYARD_METRICS"], "a") as metrics:
        print(json.dumps({"name": "kept", "value": number}), file=metrics)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # Skips the end of the interpreter, in which threads of Daft 0.7.26 can crash.
    os._exit(0)
