"""Trains with TRL what the job in TRAINYARD_JOB asks for: `engine/trl` runs this file.

Appends an event after each step and each checkpoint, and leaves the weights in the job's output folder.
"""
import json
import os
import sys


def main():
    with open(os.environ["TRAINYARD_JOB"]) as file:
        job = json.load(file)
    options = job["options"]
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_DATASETS_CACHE", os.path.join(job["scratch"], "datasets"))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        import datasets
        import torch
        import transformers
        import trl
    except ImportError as error:
        sys.exit(f"{sys.executable} has no {error.name}: install `trl`, or name another Python with the option "
                 "`python`")
    expect_version(trl.__version__, options["version"])
    torch.set_num_threads(job["cpus"])
    transformers.set_seed(job["seed"])
    print(f"trl {trl.__version__}, transformers {transformers.__version__}, torch {torch.__version__}", flush=True)

    model = transformers.AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["model"])
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    (rows,) = job["data"].values()
    data = datasets.load_dataset("json", data_files=rows, split="train")
    practice, extra = None, {}
    arguments = {
        "output_dir": os.path.join(job["scratch"], "checkpoints"),
        "max_steps": options["steps"],
        "per_device_train_batch_size": options["micro_batch_rows"],
        "gradient_accumulation_steps": options["batch_rows"] // options["micro_batch_rows"],
        "seed": job["seed"],
        "logging_steps": 1,
        "report_to": [],
        "disable_tqdm": True,
        "save_strategy": "steps" if options["save_every"] else "no",
        "save_steps": options["save_every"] or 1,
        "save_total_limit": 2,
        "use_cpu": not torch.cuda.is_available(),
        "bf16": False,
        "gradient_checkpointing": False,
    }
    if options["learning_rate"] is not None:
        arguments["learning_rate"] = options["learning_rate"]
    if options["method"] == "sft":
        from trl import SFTConfig as Config, SFTTrainer as Trainer

        arguments |= {"max_length": None, "assistant_only_loss": "tokenized" not in job["data"], "loss_type": "nll"}
    elif options["method"] == "dpo":
        from trl import DPOConfig as Config, DPOTrainer as Trainer
    else:
        from trl import GRPOConfig as Config, GRPOTrainer as Trainer
        from trl_practice import Practice

        os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
        practice = Practice(options)
        arguments |= practice.arguments()
        extra = {"reward_funcs": practice.rewards(), "rollout_func": practice.play}
    trainer = Trainer(
        model=model, processing_class=tokenizer, train_dataset=data, args=Config(**(arguments | options["config"])),
        callbacks=[follower(transformers.TrainerCallback, job["events"], practice)], **extra,
    )
    trainer.train(resume_from_checkpoint=job["resume"])
    trainer.save_model(job["output"])


def expect_version(found, wanted):
    if found.split(".")[: len(wanted.split("."))] != wanted.split("."):
        sys.exit(f"TRL {found} is installed, the stage asks for {wanted}: install that, or set the option `version`")


def follower(base, path, practice):
    """A callback that appends events to a file."""

    class Follower(base):
        def tell(self, **event):
            with open(path, "a") as file:
                file.write(json.dumps(event) + "\n")

        def on_log(self, args, state, control, logs=None, **others):
            numbers = {
                name: float(value) for name, value in (logs or {}).items()
                if isinstance(value, (int, float)) and not name.startswith(("train_", "total_flos"))
            }
            if practice:
                # The mean of a reward that applies to no episode is no number.
                numbers = {name: value for name, value in numbers.items() if value == value or "reward" not in name}
            numbers.pop("epoch", None)
            if numbers:
                self.tell(step=state.global_step, steps=state.max_steps, metrics=finite(numbers))

        def on_save(self, args, state, control, **others):
            folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
            if practice:
                practice.save(folder)
            self.tell(step=state.global_step, checkpoint=os.path.abspath(folder))

    return Follower()


def finite(numbers):
    """JSON has no NaN: null stands for what is not finite."""
    return {name: value if value - value == 0 else None for name, value in numbers.items()}


if __name__ == "__main__":
    main()
