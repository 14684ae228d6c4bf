"""The peers of benches/data_plane/measure.py: one operation per process, on the same files.

usage: data_plane.py OPERATION INPUT OUTPUT [VALUE…]

  parquet CHATS PARQUET           chats as Parquet, by Polars
  exact PARQUET PARQUET           exact duplicates, by Polars (lazy, streaming)
  seven PARQUET PARQUET           the seven rules of measure.py in one plan, by Polars (lazy, streaming)
  gopher CHATS FOLDER             quality and repetition filters of Gopher, by datatrove
  near CHATS FILE BANDS ROWS N    MinHash of shingles of N words, by rensa; FILE gets the rows that it removes
  table PARQUET ROWS              a table for the group-by, by Polars
  group_polars PARQUET SQL        the group-by, by Polars (streaming)
  group_duckdb PARQUET SQL        the group-by, by DuckDB

The last line of the output is JSON: rows kept, or the result of the group-by, and the packages that were used.
"""
import json
import sys
from importlib.metadata import version

PACKAGES = ("datatrove", "duckdb", "polars", "rensa")


def parquet(source, target):
    import polars as pl

    pl.scan_ndjson(source).with_row_index("row").sink_parquet(target, compression="zstd", compression_level=3)
    return {"kept": pl.scan_parquet(target).select(pl.len()).collect().item()}


def sunk(frame, target):
    import polars as pl

    frame.sink_parquet(target, compression="zstd", compression_level=3)
    return {"kept": pl.scan_parquet(target).select(pl.len()).collect().item()}


def content(at):
    import polars as pl

    return pl.col("messages").list.get(at).struct.field("content")


def first_of_equal(frame):
    """The first of rows with one 64-bit hash of their texts."""
    import polars as pl

    text = pl.concat_str([content(0), pl.lit("\n"), content(1)])
    return frame.with_columns(hash=text.hash()).unique(subset="hash", keep="first", maintain_order=True)


def exact(source, target):
    import polars as pl

    return sunk(first_of_equal(pl.scan_parquet(source)), target)


def seven(source, target):
    import polars as pl

    text = pl.concat_str([content(0), pl.lit("\n"), content(1)])
    answer = content(1)
    rules = [
        pl.col("messages").list.len() <= 2,
        answer.str.len_chars() > 0,
        answer.str.len_chars() < 4000,
        answer.str.contains(r"\w+(?:\W+\w+){5}"),
        ~text.str.contains(r"(?i)as an ai language model"),
        ~text.str.contains(r"https?://"),
    ]
    return sunk(first_of_equal(pl.scan_parquet(source).filter(rules)), target)


def chats(source):
    """Question and answer of each line."""
    with open(source) as file:
        for line in file:
            messages = json.loads(line)["messages"]
            yield messages[0]["content"] + "\n" + messages[1]["content"]


def gopher(source, target):
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers.jsonl import JsonlWriter

    def joined(_, row, path, at):
        return {"text": "\n".join(message["content"] for message in row["messages"]), "id": f"{path}/{at}"}

    folder, _, name = source.rpartition("/")
    pipeline = [
        JsonlReader(folder, glob_pattern=name, adapter=joined),
        GopherRepetitionFilter(),
        GopherQualityFilter(),
        JsonlWriter(f"{target}/kept", compression=None),
    ]
    LocalPipelineExecutor(pipeline, tasks=1, workers=1, logging_dir=f"{target}/log", skip_completed=False).run()
    with open(f"{target}/kept/00000.jsonl", "rb") as kept:
        return {"kept": sum(1 for _ in kept)}


def near(source, target, bands, rows, ngram):
    from rensa import RMinHash, RMinHashLSH

    bands, rows, ngram = int(bands), int(rows), int(ngram)
    index = RMinHashLSH(threshold=0.5, num_perm=bands * rows, num_bands=bands)
    kept = 0
    with open(target, "w") as removed:
        for row, text in enumerate(chats(source)):
            words = text.lower().split()
            shingles = [" ".join(words[at:at + ngram]) for at in range(max(1, len(words) - ngram + 1))]
            sketch = RMinHash(num_perm=bands * rows, seed=42)
            sketch.update(shingles)
            if index.query(sketch):
                removed.write(f"{row}\n")
            else:
                index.insert(row, sketch)
                kept += 1
    return {"kept": kept}


def table(target, rows):
    """Rows with a few sources and levels, a reward and a count of tokens, made from their numbers.

    Rewards are multiples of 1/1024, so that their sums are exact in any order.
    """
    import polars as pl

    mixed = pl.col("id").hash(seed=1)
    columns = [
        pl.format("source-{}", mixed % 8).alias("source"),
        (mixed // 8 % 10).cast(pl.Int64).alias("level"),
        ((mixed // 128 % 1024).cast(pl.Float64) / 1024).alias("reward"),
        (mixed // 2**20 % 4096).cast(pl.Int64).alias("tokens"),
    ]
    frame = pl.select(id=pl.int_range(int(rows), dtype=pl.Int64)).lazy().with_columns(columns)
    frame.sink_parquet(target, compression="zstd", compression_level=3, row_group_size=262_144)
    return {"kept": int(rows)}


def group_polars(source, sql):
    import polars as pl

    context = pl.SQLContext({"self": pl.scan_parquet(source)})
    return {"result": list(map(list, context.execute(sql).collect(engine="streaming").rows()))}


def group_duckdb(source, sql):
    import duckdb

    connection = duckdb.connect(config={"threads": 2})
    connection.execute(f"create view self as select * from read_parquet('{source}')")
    return {"result": list(map(list, connection.execute(sql).fetchall()))}


if __name__ == "__main__":
    operation, *values = sys.argv[1:]
    told = globals()[operation](*values)
    print(json.dumps(told | {"packages": [f"{name} {version(name)}" for name in PACKAGES if name in sys.modules]}))
