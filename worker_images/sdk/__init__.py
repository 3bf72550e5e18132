"""Python SDK for training scripts: reports, adaptive batches, checkpoints, resizing.

See docs/adapt-your-script.md.

    import schedulearn.worker.torch as worker      # PyTorch, with Horovod, with torchrun, or alone
    import schedulearn.worker.keras as worker      # Keras 2 on TensorFlow, Keras 3 on PyTorch or TensorFlow
    import schedulearn.worker.mxnet as worker      # MXNet Gluon

Outside Schedulearn it does nothing special. It has Python 3.8 syntax, and needs only numpy, the standard library and
the framework: the service copies these files into images of any age.
"""

if __name__ != "schedulearn.worker":
    raise ImportError("import schedulearn.worker, not " + __name__ + ": the folder is mapped to that name by setup.py")

PREEMPTED = 75
"""Exit code of a worker that saved a checkpoint because it was told to stop (EX_TEMPFAIL of sysexits.h)."""
