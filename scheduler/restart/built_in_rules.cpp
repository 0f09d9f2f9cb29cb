// Order matters: what names a cause comes before what is often its echo. Texts are literal parts of
// the tools' own messages; each row has a sample in tests/policy/samples that no other row fits.
//
// `stop` of a built-in rule holds only until the attempt has made progress (policy.cpp): a
// program that trained for an hour is not stopped for good on the word of a pattern, unless
// it diverged.
#include "scheduler/restart/rule_book.h"

namespace muster {

namespace {

constexpr auto user = FailureClass::user;
constexpr auto infra = FailureClass::infra;
constexpr auto hw = FailureClass::hw;
constexpr auto hang = FailureClass::hang;
constexpr auto sdc = FailureClass::sdc;
constexpr auto preempted = FailureClass::preempted;
constexpr auto divergence = FailureClass::divergence;
constexpr auto retry = Reaction::retry;
constexpr auto backoff = Reaction::backoff;
constexpr auto stop = Reaction::stop;
constexpr auto exclude_node = Reaction::exclude_node;

// Python names the exception at the beginning of a line, which launchers prefix with the rank.
#define PYTHON_ERROR R"(^(\[?rank ?\d+\]?: ?)?)"

RestartRule says(const char* id, const char* pattern, FailureClass failure_class, Reaction action,
                 const char* advice) {
  RestartRule rule;
  rule.id = id;
  rule.stderr_regex = pattern;
  rule.failure_class = failure_class;
  rule.action = action;
  rule.advice = advice;
  return rule;
}

// What a rank says when another one went away.
RestartRule echoes(const char* id, const char* pattern, FailureClass failure_class,
                   const char* advice) {
  RestartRule rule = says(id, pattern, failure_class, retry, advice);
  rule.cascade = true;
  return rule;
}

RestartRule doubts_state(RestartRule rule) {
  rule.doubts_state = true;
  return rule;
}

RestartRule waits(RestartRule rule, Seconds delay) {
  rule.delay = delay;
  return rule;
}

RestartRule exits(RestartRule rule, int code) {
  rule.exit_codes = {{code, code}};
  return rule;
}

RestartRule dies(const char* id, int signal, FailureClass failure_class, Reaction action,
                 const char* advice) {
  RestartRule rule = says(id, "", failure_class, action, advice);
  rule.signals = {signal};
  return rule;
}

RestartRule reports(const char* id, std::vector<NumberRange> xids, FailureClass failure_class,
                    Reaction action, const char* advice) {
  RestartRule rule = says(id, "", failure_class, action, advice);
  rule.xids = std::move(xids);
  return rule;
}

// ---- the GPU, its driver and its libraries ----------------------------------------------------

std::vector<RestartRule> gpu_rules() {
  return {
      doubts_state(
          says("gpu-ecc",
               "uncorrectable ECC error|CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable", hw,
               exclude_node, "have the node's GPU memory diagnosed and the GPU reset")),
      says("gpu-lost", "GPU has fallen off the bus|GPU is lost|cudaErrorDeviceLost", hw,
           exclude_node, "reboot the node; when it happens again have the GPU replaced"),
      says("nvlink", "(?i)uncorrectable NVLink error|NVLink.{0,40}(fatal|is down|error detected)",
           hw, exclude_node, "have the node's NVLink and NVSwitch diagnosed"),
      // 48, 95, 140: uncontained memory errors; 64: remapping failed.
      doubts_state(
          reports("gpu-xid-memory", {{48, 48}, {64, 64}, {95, 95}, {140, 140}}, hw, exclude_node,
                  "have the GPU that the kernel log names reset and its memory diagnosed")),
      // 74: NVLink; 79: GPU lost; 94: contained memory error; 119, 120: the GPU's own processor.
      reports("gpu-xid", {{74, 74}, {79, 79}, {94, 94}, {119, 120}}, hw, exclude_node,
              "have the GPU that the kernel log names reset and diagnosed"),
      reports("gpu-xid-program", {{13, 13}, {31, 31}, {43, 43}}, user, backoff,
              "run under compute-sanitizer; look at the GPU when it happens on one node only"),
      says("driver-mismatch",
           "(?i)driver/library version mismatch|unsupported display driver / cuda driver", infra,
           exclude_node, "reboot the node: its driver was upgraded while the old one was loaded"),
      says("driver-too-old",
           "CUDA driver version is insufficient|NVIDIA driver on your system is too old", user,
           stop, "use a build for an older CUDA, or nodes with a newer driver"),
      says("no-gpu",
           "no CUDA-capable device is detected|No CUDA GPUs are available|"
           "Found no NVIDIA driver on your system",
           infra, retry, "check nvidia-smi on the node and CUDA_VISIBLE_DEVICES of the job"),
      says("gpu-busy", "all CUDA-capable devices are busy or unavailable", infra, retry,
           "look for another process on the node's GPUs, or an exclusive compute mode"),
      says("cuda-library-missing",
           R"(lib(cudart|cublas|cublasLt|cudnn\w*|nccl|cufft|cusparse|cusolver|nvrtc)[-\w]*\.so)"
           R"([.\d]*: cannot open shared object file)",
           user, stop, "install the CUDA libraries that the program was built for, or load them"),
      says("cuda-oom",
           "(CUDA|HIP) out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|"
           "CUBLAS_STATUS_ALLOC_FAILED|torch(\\.cuda)?\\.OutOfMemoryError",
           user, stop, "reduce the batch size, shard the model or recompute activations"),
      says("device-assert", "device-side assert triggered", user, stop,
           "run with CUDA_LAUNCH_BLOCKING=1; most often an index or label is out of range"),
      says("gpu-illegal-access",
           "illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS|misaligned address",
           user, backoff, "run under compute-sanitizer; suspect a node that fails again and again"),
      says("gpu-launch-failed", "unspecified launch failure|CUDA_ERROR_LAUNCH_FAILED", user,
           backoff, "run under compute-sanitizer; look at the node's kernel log for an Xid"),
  };
}

// ---- memory, disks and limits of the node -----------------------------------------------------

std::vector<RestartRule> node_rules() {
  return {
      says("shm-too-small",
           R"(insufficient shared memory \(shm\)|workers are out of shared memory|)"
           R"(unable to (open|resize|mmap) .{0,80}(shared memory|/torch_)|/dev/shm.{0,80}No space)",
           user, stop, "raise resources.shm_size, or use fewer data workers"),
      says("host-oom-kill", R"((?i)\boom[-_]kill|Out of memory: Killed process)", user, backoff,
           "use less host memory: fewer data workers, smaller caches, or fewer ranks on a node"),
      says("host-memory",
           PYTHON_ERROR "MemoryError|std::bad_alloc|DefaultCPUAllocator: (can't|not enough)|"
                        "Cannot allocate memory",
           user, backoff, "use less host memory, or find what else runs on the node"),
      says("data-worker-killed",
           R"(DataLoader worker \(pid(\(s\))? [\d, ]+\) (is killed by signal|exited unexpectedly))",
           user, backoff, "look for the worker's own error above; often host memory is used up"),
      says("disk-full", "No space left on device|\\bENOSPC\\b", infra, retry,
           "free space on the node and where checkpoints and caches are written"),
      says("quota", "Disk quota exceeded|\\bEDQUOT\\b", user, stop,
           "delete files or have the quota raised: restarts write even more"),
      says("read-only", "Read-only file system|\\bEROFS\\b", infra, retry,
           "check the node's mounts: a disk that fails is remounted read-only"),
      says("stale-handle", "(?i)stale (NFS )?file handle", infra, retry,
           "remount the file system on the node"),
      says("storage-error",
           R"(\[Errno 5\]|: Input/output error|Transport endpoint is not connected)", infra, retry,
           "look at the node's kernel log and at the storage server"),
      says("too-many-files", "Too many open files|received 0 items of ancdata", user, stop,
           "raise the limit (ulimit -n), or share tensors by file system"),
      says("too-many-threads",
           "can't start new thread|Resource temporarily unavailable|pthread_create failed", user,
           backoff, "raise the limit (ulimit -u), or use fewer workers and OMP threads"),
  };
}

// ---- the program and what it needs ------------------------------------------------------------

std::vector<RestartRule> program_rules() {
  return {
      says("glibc-version", R"(version [`'](GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found)", user, stop,
           "build the program on the node's distribution, or run it in a container"),
      says("library-missing", "error while loading shared libraries|cannot open shared object file",
           user, stop,
           "install the library on the nodes, or set LD_LIBRARY_PATH in environment_variables"),
      says("compiler-input", R"(fatal error: \S+\.h\S*: No such file|Error building extension ')",
           user, stop,
           "install what the program compiles against on the nodes; Python.h: python3-dev"),
      says("tokenizer-missing",
           "Can't load tokenizer for|Couldn't instantiate the backend tokenizer|"
           "tokenizer\\.(json|model).{0,40}No such file",
           user, stop, "put the tokenizer's files beside the model, or correct its name"),
      waits(says("hub-rate-limit", "429 Client Error|HTTP Error 429|We had to rate limit you", user,
                 backoff, "stage the files as an input: every rank asks the hub again"),
            Seconds{120}),
      says("hub-access", "Cannot access gated repo|401 Client Error|403 Client Error", user, stop,
           "pass a token that may read it in environment_variables"),
      says("checkpoint-corrupt",
           "PytorchStreamReader failed|Error while deserializing header|UnpicklingError|"
           "(?i:checkpoint).{0,60}(?i:corrupt)",
           user, stop, "resume from an older checkpoint: muster resume JOB --from STEP"),
      says("import-error", PYTHON_ERROR "(ModuleNotFoundError|ImportError): ", user, stop,
           "install the module in the environment that the nodes use"),
      says("syntax-error", PYTHON_ERROR "(SyntaxError|IndentationError|TabError): ", user, stop,
           "correct the program; python -m compileall finds it before a run"),
      says("file-missing", PYTHON_ERROR R"(FileNotFoundError: |can't open file '.*': \[Errno 2\])",
           user, stop, "correct the path; declare it as an input so that it is on every node"),
      exits(says("usage", R"(^[^\s:]+( [\w-]+)*: error: )", user, stop,
                 "correct the arguments of the command"),
            2),
      says("options-differ", "^muster-train: --\\S+ differs between ranks: ", user, stop,
           "give all ranks the same options"),
      waits(says("licence",
                 "(?i)licen[cs]e checkout failed|Licensed number of users already reached|"
                 "FlexNet Licensing error|Failed to check ?out .{0,40}licen[cs]e",
                 user, backoff, "wait for a free licence, or limit the jobs that need one"),
            Seconds{300}),
      says("hardware-doubt", R"(rank \d+ on \S+: hardware in doubt: )", sdc, exclude_node,
           "test the node's memory and processors; its job goes back to a certified checkpoint"),
      says("hardware-doubt-unnamed", "^muster-train: hardware in doubt: ", sdc, retry,
           "run with three ranks or more, so that the odd one can be named"),
      echoes("hardware-doubt-peer", "^muster-train: ends because the hardware of rank", sdc,
             "look at the rank whose hardware is in doubt"),
      says("diverged", "^muster-train: diverged: ", divergence, stop,
           "a restart would compute the same: go back as it says, and change what it says"),
      says("nan-loss",
           R"((?i)\bloss (is|was|became|=) *(nan|inf)\b|found NaN in|returned nan values in its)",
           sdc, retry, "lower the learning rate, clip gradients; suspect a node if it moves"),
  };
}

// ---- the network, and peers that went away ----------------------------------------------------

std::vector<RestartRule> network_rules() {
  return {
      says("port-in-use", "(?i)address already in use|\\bEADDRINUSE\\b", infra, retry,
           "take the port from MASTER_PORT, which is free; look for orphan processes on the node"),
      says("name-resolution",
           "Temporary failure in name resolution|Name or service not known|"
           "No address associated with hostname|Could not resolve host",
           infra, retry, "check DNS on the node, and the host names of the job"),
      says("tls", R"((?i)certificate[ _]verify[ _]failed|\[SSL: |SSLError\()", user, backoff,
           "check the certificate, the proxy and the node's clock"),
      says("mpi-abort", "MPI_ABORT was invoked on rank|application called MPI_Abort", user, backoff,
           "look for the program's own message above: it ended all ranks itself"),
      echoes("nccl-timeout",
             "Watchdog caught collective operation timeout|milliseconds before timing out", hang,
             "find the rank that did not join the collective: its log ends earlier"),
      echoes("nccl-remote",
             R"(ncclRemoteError|remote process exited or there was a network error|)"
             R"(NET/IB ?: Got completion from peer)",
             infra, "look at the rank that ended first; without one, at the fabric"),
      echoes("nccl-system",
             "ncclSystemError|unhandled system error|ncclInternalError|ncclUnhandledCudaError|"
             "unhandled cuda error",
             infra, "run with NCCL_DEBUG=INFO: the line before names the call that failed"),
      echoes("watchdog",
             "watchdog thread terminated with exception|taking the entire process down|"
             "Terminating the process after attempting to dump debug info|watchdog got stuck",
             infra, "look for the first collective that failed, on the rank that ended first"),
      echoes("rendezvous",
             "Rendezvous(Timeout|Connection|Closed)Error|client socket has timed out after|"
             "Timed out after .{0,40} waiting for clients",
             infra, "see that every node reaches MASTER_ADDR:MASTER_PORT, and all ranks started"),
      echoes("store-lost",
             "DistStoreError|recvValue failed on|Failed to recv, got 0 bytes|"
             "TCPStore.{0,40}(timeout|failed)",
             infra, "look at rank 0, which holds the store, and at the rank that ended first"),
      echoes("gloo", "gloo/transport/|(?i:gloo) connectFullMesh failed", infra,
             "see that the nodes reach each other; GLOO_SOCKET_IFNAME names the interface"),
      echoes("mpi-transport", R"(btl_tcp|mca_btl_|mca_pml_|UCX +ERROR|ORTE has lost communication)",
             infra, "see that the nodes reach each other; look at the rank that ended first"),
      echoes("connection-refused", "Connection refused|\\bECONNREFUSED\\b", infra,
             "see whether the server was up, and whether a firewall is between"),
      echoes("connection-lost",
             "Connection reset by peer|Connection closed by (remote )?peer|Broken pipe|"
             "\\bECONNRESET\\b|No route to host|Connection timed out",
             infra, "look at the rank that ended first; without one, at the network"),
  };
}

// ---- how it ended -----------------------------------------------------------------------------

std::vector<RestartRule> end_rules() {
  return {
      says("preemption-notice",
           "(?i)due to preemption|(spot|preemption|eviction|interruption|termination) notice|"
           "instance is being (preempted|evicted|terminated)",
           preempted, retry, "nothing: the machine was taken back and the job continues elsewhere"),
      says("time-limit", "DUE TO TIME LIMIT|job killed: walltime|exceeded its wall ?clock limit",
           user, stop, "ask the outer scheduler for more time, or checkpoint more often"),
      says("permission", PYTHON_ERROR R"(PermissionError: |: Permission denied$)", user, stop,
           "give the job's user access on every node"),
      says("argument-list", R"(Argument list too long|\[Errno 7\])", user, stop,
           "pass what is long in a file: arguments and variables together have a limit"),
      says("exec-format", "Exec format error|cannot execute binary file", user, stop,
           "build the program for the nodes' processors; a script needs its #! line"),
      exits(says("not-executable", "", user, stop,
                 "make the program executable (chmod +x) and name its interpreter"),
            126),
      exits(says("not-found", "", user, stop,
                 "install the program on the nodes, or write its whole path; files beside the job "
                 "file get there with `code: .`"),
            127),
      dies("segfault", 11, user, backoff,
           "look at a core file; suspect a node that fails again and again"),
      dies("bus-error", 7, user, backoff,
           "raise resources.shm_size; a file that was cut while it was mapped does it too"),
      dies("terminated", 15, preempted, retry,
           "nothing: something outside muster ended it, as a scheduler or a shutdown does"),
  };
}

std::vector<RestartRule> whole_table() {
  std::vector<RestartRule> all;
  for (const auto& part :
       {gpu_rules(), node_rules(), program_rules(), network_rules(), end_rules()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

const std::vector<RestartRule>& built_in_rules() {
  static const std::vector<RestartRule> table = whole_table();
  return table;
}

}  // namespace muster
