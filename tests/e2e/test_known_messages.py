"""`plimsoll report` on logs that were written down before the table of known texts was."""

import json

import pytest

from .running import complains

DOCKER = "".join(
    json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-03-02T09:41:07.000000001Z"})
    + "\n"
    for line in [
        "epoch 3/10",
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 88, in train_step',
        "    loss.backward()",
        '  File "/usr/lib/python3/dist-packages/torch/_tensor.py", line 581, in backward',
        "    torch.autograd.backward(",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total "
        "capacity of 23.65 GiB of which 812.06 MiB is free. Process 9 has 22.85 GiB memory in use. "
        "Of the allocated memory 21.00 GiB is allocated by PyTorch, and 1.30 GiB is reserved by "
        "PyTorch but unallocated.",
    ]
)

DESCRIBE = """\
Name:             finetune-0
Containers:
  main:
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Limits:
      memory:  16Gi
"""

RAY = """\
ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
Memory on the node (IP: 172.31.8.37, ID: 3a1f) where the task (task ID: 16310a, name=train) was \
running was 30.12GB / 31.00GB (0.971613), which exceeds the memory usage threshold of 0.95. Ray \
killed this worker (ID: 5e2b) because it was the most recently scheduled task.
"""

DEEPSPEED = """\
[2024-05-02 10:11:10,001] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4242
[2024-05-02 10:11:12,345] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', \
'train.py', '--local_rank=3', '--deepspeed', 'ds.json'] exits with return code = -9
"""

VLLM = """\
(EngineCore_0 pid=88) ERROR 09-11 10:00:00 [core.py:700] AssertionError: Error in memory \
profiling. Initial free memory 38.22 GiB, current free memory 40.80 GiB. This happens when other \
processes sharing the same container release GPU memory while vLLM is profiling during \
initialization.
"""

JAX = """\
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 1.91GiB \
(2048000000B) on device ordinal 1
"""

BITSANDBYTES = """\
Loading checkpoint shards: 100%
Error out of memory at line 91 in file /src/bitsandbytes/csrc/ops.cu
"""

SHARED_MEMORY = """\
RuntimeError: Caught RuntimeError in DataLoader worker process 3.
RuntimeError: unable to write to file </torch_1234_2719_0>: No space left on device (28)
"""

ASYNC = """\
!!! Exception during processing !!! Allocation on device
Traceback (most recent call last):
  File "/opt/ComfyUI/execution.py", line 327, in execute
torch.OutOfMemoryError: Allocation on device
Got an OOM, unloading all loaded models.
"""

ACCELERATE = """\
  File "/usr/lib/python3/site-packages/accelerate/commands/launch.py", line 763, in simple_launcher
    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)
subprocess.CalledProcessError: Command '['/usr/bin/python3', 'train.py']' died with \
<Signals.SIGKILL: 9>.
"""


@pytest.mark.parametrize(
    ("text", "requested", "words"),
    [
        (DOCKER, 1_610_612_736, ["cuda:0", "1.5 GiB", "app/train.py:88 (train_step)"]),
        (DESCRIBE, None, ["Kubernetes reports OOMKilled", "limits.memory"]),
        (RAY, None, ["the node used 30.1 GiB of 31.0 GiB", "RAY_memory_usage_threshold"]),
        (DEEPSPEED, None, ["SIGKILL", "dmesg"]),
        (VLLM, None, ["vLLM", "38.2 GiB", "40.8 GiB", "gpu_memory_utilization"]),
        (JAX, 2_048_000_000, ["XLA", "1.9 GiB", "XLA_PYTHON_CLIENT_MEM_FRACTION"]),
        (BITSANDBYTES, None, ["bitsandbytes ran out of device memory", "no numbers"]),
        (SHARED_MEMORY, None, ["/dev/shm", "--shm-size"]),
        (ASYNC, None, ["cudaMallocAsync", "no numbers"]),
        (ACCELERATE, None, ["SIGKILL", "dmesg"]),
    ],
    ids=[
        "docker",
        "describe",
        "ray",
        "deepspeed",
        "vllm",
        "jax",
        "bnb",
        "shm",
        "async",
        "accelerate",
    ],
)
def test_logs_of_programs(text, requested, words, plimsoll):
    ran = plimsoll("report", "--full", "-", input=text.encode())
    assert ran.status == 0, ran.err
    out = " ".join(ran.out.split())
    assert out.startswith("CRITICAL")
    assert all(word in out for word in words), out
    assert "a request of 0 B" not in out
    report = json.loads(plimsoll("report", "--json", "-", input=text.encode()).out)
    (device,) = report["devices"]
    assert [oom["requested_bytes"] for oom in device["ooms"]] == [requested]
    assert [oom["requested_bytes"] for oom in device["oom_details"]] == [requested]


@pytest.mark.parametrize(
    "text",
    [
        "If the state of a pod is OOMKilled, raise limits.memory of its container.",
        "# A job that ends as OOMKilled is started again with more memory.",
        "OOMKilled: page the owner of the job",
        "alerts:\n  - OOMKilled\n  - Evicted\nretry_on: OOMKilled",
        '{"State": {"Status": "exited", "OOMKilled": false, "ExitCode": 1}}',
        "The operator retries on `OOMKilled` and `RESOURCE_EXHAUSTED`.",
        "retryable_codes: [UNAVAILABLE, RESOURCE_EXHAUSTED]",
        "grpc: status = StatusCode.RESOURCE_EXHAUSTED, details = message larger than max",
        '{"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}',
        "    except tf.errors.ResourceExhaustedError:\n        batch //= 2",
        "// Returns CUDA_ERROR_OUT_OF_MEMORY if the pool cannot grow.",
        "We catch cudaErrorMemoryAllocation and hipErrorOutOfMemory, and try again.",
        "CUBLAS_STATUS_ALLOC_FAILED and CUDNN_STATUS_ALLOC_FAILED name the library at fault.",
        "The exporter counts each oom_kill event of a node, and each oom-kill event(s) line.",
    ],
)
def test_a_text_about_messages_has_none(text, plimsoll):
    ran = plimsoll("report", "-", input=("notes\n" * 20 + text + "\n").encode())
    complains(ran, 3, "none of the messages about memory")
