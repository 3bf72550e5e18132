"""A check of three seconds whether CUDA works: a small matrix product on each GPU, and a copy to each peer.

Runs in a container of a worker image, which may lack PyTorch. Prints one line of JSON: {"skipped": why}, or
{"errors": {UUID or index of a GPU, or "" for all: what is wrong}}.
"""

import json

SIZE = 256


def check(torch):
    """Index of a GPU -> what is wrong with it; "": CUDA works on none."""
    try:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    except Exception as error:
        return {"": str(error)}
    if not count:
        return {"": "No CUDA GPUs are available"}
    errors, ones = {}, {}
    for index in range(count):
        try:
            ones[index] = torch.ones(SIZE, SIZE, device=f"cuda:{index}")
            if (ones[index] @ ones[index]).sum().item() != SIZE**3:
                errors[index] = "a matrix product is wrong"
        except Exception as error:
            errors[index] = str(error)
    for index in ones:
        for other in ones:
            if index == other or index in errors or other in errors:
                continue
            try:
                if ones[index].to(f"cuda:{other}").sum().item() != SIZE**2:
                    errors[index] = f"a copy to GPU {other} is wrong"
            except Exception as error:
                errors[index] = f"a copy to GPU {other} fails: {error}"
    return errors


def name(torch, index):
    """Its UUID, where PyTorch tells it."""
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", "") if index != "" else ""
    return f"GPU-{uuid}" if uuid else str(index)


def main():
    try:
        import torch
    except ImportError as error:
        told = {"skipped": f"the image has no PyTorch ({error})"}
    else:
        if not torch.version.cuda:
            told = {"skipped": "the image's PyTorch is without CUDA"}
        else:
            told = {"errors": {name(torch, index): error[:300] for index, error in check(torch).items()}}
    print(json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
