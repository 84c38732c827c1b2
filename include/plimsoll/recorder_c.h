/* The recorder's C interface: the functions that an allocator, a framework adapter or a training
 * loop calls to have its memory recorded. Each function of plimsoll_recorder_api may be called from
 * any thread, never throws, never waits for a file, and records nothing while no recording runs.
 *
 * An adapter is a separate binary and links no library of Plimsoll: it gets a plimsoll_recorder_api
 * and checks abi_version. Members are only ever appended, and size_bytes gives the size of the
 * struct; a change of an existing member makes a new abi_version.
 *
 *   plimsoll_context* context = api->context();  // once per thread; only this thread writes it
 *   context->layer = api->name("model.fc1", 9);
 *   api->alloc(context, device, address, 4096);
 *   api->free(context, device, address);
 */
#ifndef PLIMSOLL_RECORDER_C_H_
#define PLIMSOLL_RECORDER_C_H_

#include <stddef.h>
#include <stdint.h>

#include "plimsoll/holders_c.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PLIMSOLL_RECORDER_ABI 1u

#define PLIMSOLL_EXPORT __attribute__((visibility("default")))

/* The phase of the training loop that a thread is in. */
enum plimsoll_phase {
  PLIMSOLL_PHASE_OTHER = 0,
  PLIMSOLL_PHASE_FORWARD = 1,
  PLIMSOLL_PHASE_BACKWARD = 2,
  PLIMSOLL_PHASE_OPTIMIZER = 3,
  PLIMSOLL_PHASE_DATA = 4
};

/* Whether autograd records the outermost operator. Unknown in the nodes of a backward, and inside
 * an autograd.Function, which turns autograd off for the operators of its own node. */
enum plimsoll_autograd {
  PLIMSOLL_AUTOGRAD_UNKNOWN = 0,
  PLIMSOLL_AUTOGRAD_OFF = 1,  /* torch.no_grad(), torch.inference_mode() */
  PLIMSOLL_AUTOGRAD_ON = 2,   /* no node before this allocation: no input may need a gradient */
  PLIMSOLL_AUTOGRAD_BUILT = 3 /* the operator has built a node */
};

enum plimsoll_device_type {
  PLIMSOLL_DEVICE_CPU = 0,
  PLIMSOLL_DEVICE_CUDA = 1,
  PLIMSOLL_DEVICE_HIP = 2,
  PLIMSOLL_DEVICE_XPU = 3,
  PLIMSOLL_DEVICE_PINNED_HOST = 4,
  PLIMSOLL_DEVICE_OTHER = 5,
  PLIMSOLL_DEVICE_MTIA = 6,
  PLIMSOLL_DEVICE_NPU = 7,
  PLIMSOLL_DEVICE_HPU = 8,
  PLIMSOLL_DEVICE_MPS = 9
};

/* What the program uses a tensor for. KNOWN: only its dtype and shape are known. */
enum plimsoll_role {
  PLIMSOLL_ROLE_KNOWN = 0,
  PLIMSOLL_ROLE_PARAMETER = 1,
  PLIMSOLL_ROLE_GRADIENT = 2,
  PLIMSOLL_ROLE_OPTIMIZER_STATE = 3,
  PLIMSOLL_ROLE_BUFFER = 4,
  PLIMSOLL_ROLE_INPUT = 5,
  PLIMSOLL_ROLE_WORKSPACE = 6, /* no tensor: a library's own memory, with the library's name */
  /* The result of an operator that autograd tracks. Counts only for adopted memory: for other
   * memory, its phase decides. */
  PLIMSOLL_ROLE_ACTIVATION = 7
};

enum plimsoll_mark {
  PLIMSOLL_MARK_STEP = 0,           /* value: the number of the step that ends here */
  PLIMSOLL_MARK_REGION_BEGIN = 1,   /* value: name id */
  PLIMSOLL_MARK_REGION_END = 2,     /* value: name id */
  PLIMSOLL_MARK_BACKWARD_BEGIN = 3, /* value: 0 */
  PLIMSOLL_MARK_BACKWARD_END = 4,   /* value: 0 */
  PLIMSOLL_MARK_OUT_OF_MEMORY = 5,  /* value: requested bytes; out_of_memory() has more */
  /* The context of this thread from here on, also of attached events without one, by time. */
  PLIMSOLL_MARK_LAYER = 6,    /* value: name id, 0: none */
  PLIMSOLL_MARK_OPERATOR = 7, /* value: name id of the outermost operator, 0: none */
  PLIMSOLL_MARK_PHASE = 8,    /* value: plimsoll_phase */
  /* A call of a layer's forward, or a LayerScope; only in recordings with marks_layer_calls. */
  PLIMSOLL_MARK_LAYER_BEGIN = 9, /* value: name id */
  PLIMSOLL_MARK_LAYER_END = 10,  /* value: name id */
  /* value: 0. From here on, the program marks its own steps; earlier steps do not count. */
  PLIMSOLL_MARK_OWN_STEPS = 11,
  /* Python's cyclic garbage collector runs on this thread. */
  PLIMSOLL_MARK_COLLECTION_BEGIN = 12, /* value: the generation; 2: all objects */
  PLIMSOLL_MARK_COLLECTION_END = 13,   /* value: the same */
  /* value: 1 if the uses of memory are reported from here on, else 0. observe_uses() makes it. */
  PLIMSOLL_MARK_USES = 14,
  /* value: 0. The process was forked: a child may use what is live now, unseen. */
  PLIMSOLL_MARK_FORK = 15,
  /* value: 0. A root module's call has ended, and the program has no steps: calls are its steps for
   * the growth of its memory. Not in the file. */
  PLIMSOLL_MARK_CALL_END = 16
};

/* The context of a thread, which each alloc and free reads. Only its own thread writes it. Ids are
 * results of name() and stack(); 0: none or unknown. */
typedef struct plimsoll_context {
  uint32_t layer; /* name of the module whose forward runs; in backward, of forward_op's module */
  uint32_t outer_op;    /* name of the outermost operator running; in backward the autograd node */
  uint32_t inner_op;    /* name of the innermost one */
  uint32_t forward_op;  /* in backward: name of the operator that created the autograd node */
  uint32_t stack;       /* Python stack at the start of outer_op; in backward, of forward_op */
  uint32_t op_instance; /* number of this thread's outermost operator call; 0: no operator runs */
  uint8_t phase;        /* plimsoll_phase */
  uint8_t autograd;     /* plimsoll_autograd */
  uint8_t reserved[6];  /* 0 */
} plimsoll_context;

typedef struct plimsoll_frame {
  uint32_t file;     /* name id */
  uint32_t function; /* name id */
  uint32_t line;     /* from 1; 0: unknown */
} plimsoll_frame;

/* One block that a caching allocator (PyTorch's on CUDA) allocated or failed to allocate. */
typedef struct plimsoll_block {
  uint64_t address;
  uint64_t requested_bytes; /* by the program */
  uint64_t size_bytes; /* of the block, after rounding and splitting: what allocated bytes count */
  uint64_t stream;     /* the framework's handle; 0: the default stream */
  uint32_t pool;       /* name id of a private pool, "FIRST.SECOND" in decimal; 0: the default
                          pools */
  uint32_t reserved;   /* 0 */
} plimsoll_block;

/* Changes of the memory that a caching allocator has reserved from the driver: whole segments, or
 * ranges of pages of expandable segments. */
enum plimsoll_segment_action {
  PLIMSOLL_SEGMENT_ALLOC = 0,
  PLIMSOLL_SEGMENT_FREE = 1,
  PLIMSOLL_SEGMENT_MAP = 2,
  PLIMSOLL_SEGMENT_UNMAP = 3
};

/* The driver's figures for a device, for all processes. A reading consists of several figures,
 * reported in sequence by one thread, TOTAL first and FREE last. Unknown figures are left out. */
enum plimsoll_figure {
  PLIMSOLL_FIGURE_TOTAL = 0,
  PLIMSOLL_FIGURE_FREE = 1,
  PLIMSOLL_FIGURE_DRIVER = 2,  /* reserved by driver and firmware: neither used nor free */
  PLIMSOLL_FIGURE_OWN = 3,     /* of this process; 0: it does not use the device */
  PLIMSOLL_FIGURE_CONTEXT = 4, /* part of OWN: what CUDA itself allocated at its start */
  PLIMSOLL_FIGURE_NCCL = 5,    /* value: 0; this process uses NCCL */
  PLIMSOLL_FIGURE_PROCESS = 6, /* of another process */
  PLIMSOLL_FIGURE_PROCESS_UNREPORTED = 7, /* value: 0; another process, whose bytes are unknown */
  PLIMSOLL_FIGURE_PROCESSES_UNLISTED = 8, /* value: 0; other processes are not listed at all */
  PLIMSOLL_FIGURE_HIGHEST = 9,            /* of the CPU: the most that OWN has ever been */
  PLIMSOLL_FIGURE_FREE_HEAP = 10 /* of the CPU: freed memory that the C library has not returned */
};

/* The type of the 64 bits of an allocator setting's value. */
enum plimsoll_setting_type {
  PLIMSOLL_SETTING_BOOLEAN = 0, /* 0 or 1 */
  PLIMSOLL_SETTING_INTEGER = 1, /* an int64_t */
  PLIMSOLL_SETTING_NUMBER = 2,  /* the bits of a double */
  PLIMSOLL_SETTING_TEXT = 3     /* a name id; 0: empty */
};

/* What is known about a module. A sum of these. */
enum plimsoll_module_state {
  PLIMSOLL_MODULE_IN_EVAL_MODE = 1,
  PLIMSOLL_MODULE_CHECKPOINTS = 2, /* its attribute gradient_checkpointing is True */
  PLIMSOLL_MODULE_ONLY_HOLDS = 4   /* its class has no forward: ModuleList, ModuleDict */
};

/* Problems during a recording. Numbers are never reused. */
enum plimsoll_notice {
  PLIMSOLL_NOTICE_SIZES_CORRECTED = 1,  /* block sizes corrected by the allocator's statistics */
  PLIMSOLL_NOTICE_SUMS_UNEXPLAINED = 2, /* differences that no single block explains */
  PLIMSOLL_NOTICE_SIZES_UNVERIFIED = 3, /* block sizes not checked against any statistics */
  PLIMSOLL_NOTICE_CUDA_ADAPTER_UNAVAILABLE = 4, /* torch's history is used; text: why */
  PLIMSOLL_NOTICE_DEVICE_NOT_RECORDED = 5,  /* device memory is not recorded at all; text: why */
  PLIMSOLL_NOTICE_FAILURES_NOT_PRINTED = 6, /* recorded, but not printed while the program ran */
  PLIMSOLL_NOTICE_NAMES_REFUSED = 7,        /* events with a name or stack beyond the limit */
  PLIMSOLL_NOTICE_DETAILS_LOST = 8,         /* no memory for layers, lines or tensors */
  PLIMSOLL_NOTICE_REPORT_FAILED = 9,        /* report of a failed request; text: the error */
  PLIMSOLL_NOTICE_CHILDREN_UNRECORDED = 10  /* forked children that allocated */
};

/* Ranges: named spans of a thread's time. Their begin and end are reported to a listener that shows
 * them in another tool's timeline (plimsoll_listen_to_ranges). */
enum plimsoll_range {
  PLIMSOLL_RANGE_PHASE = 0, /* value: plimsoll_phase */
  PLIMSOLL_RANGE_LAYER = 1, /* value: name id */
  PLIMSOLL_RANGE_REGION = 2 /* value: name id */
};

/* Called on the thread that the range belongs to. Must not call functions that end a recording. An
 * end closes the thread's innermost open range with this value. A begin or end may be missing. */
typedef struct plimsoll_range_listener {
  void (*begin)(uint8_t range, uint32_t value);
  void (*end)(uint8_t range, uint32_t value);
  void (*step)(uint64_t number); /* the step that ends here */
} plimsoll_range_listener;

typedef struct plimsoll_recorder_api {
  uint32_t abi_version; /* PLIMSOLL_RECORDER_ABI */
  uint32_t size_bytes;  /* of this struct */

  /* Returns this thread's context. Never null; the address is the same while the thread lives. */
  plimsoll_context* (*context)(void);
  /* Returns nonzero while at least one recording runs. */
  int (*is_recording)(void);

  /* Hot path. Call alloc after the memory has been allocated, and free before it is freed. */
  void (*alloc)(plimsoll_context* context, uint8_t device, uint64_t address, uint64_t size_bytes);
  void (*free)(plimsoll_context* context, uint8_t device, uint64_t address);

  /* Reports memory that was allocated earlier: before the recording, or unseen by the adapter.
   * `tensor` may be 0. An address that is already live is only tagged. */
  void (*adopt)(plimsoll_context* context, uint8_t device, uint64_t address, uint64_t size_bytes,
                uint32_t tensor);
  /* Reports that the live memory at `address` belongs to this tensor. Roles take precedence in the
   * order of plimsoll_role, KNOWN last. Unknown addresses are ignored. */
  void (*tag)(plimsoll_context* context, uint8_t device, uint64_t address, uint32_t tensor);
  /* Sets the phase of what this thread's outermost operator has allocated so far. */
  void (*set_phase)(plimsoll_context* context, uint8_t phase);
  void (*mark)(plimsoll_context* context, uint8_t mark, uint64_t value);

  /* Interning. Not hot: takes a lock and may allocate. The same text has the same id for the
   * lifetime of the process. */
  uint32_t (*name)(const char* text, size_t size_bytes);
  uint32_t (*stack)(const plimsoll_frame* frames, size_t count); /* innermost first */
  /* Returns a stack id to use now and define later with define_stack(), for places where the frames
   * cannot be read. */
  uint32_t (*reserve_stack)(void);
  void (*define_stack)(uint32_t stack, const plimsoll_frame* frames, size_t count);
  uint32_t (*tensor)(uint8_t role, uint32_t name, uint32_t dtype, uint32_t shape); /* name ids */
  uint8_t (*device)(uint8_t device_type, int32_t ordinal); /* the CPU is 0 */

  /* For caching allocators; hot path. size_bytes shows whether the recorder has these functions.
   * Call them in the order of the allocator's operations, that is, under its lock. When a recording
   * begins, report the existing segments (ALLOC or MAP), then each block (adopt_block), then
   * free_requested for the blocks that wait for a stream. */
  void (*alloc_block)(plimsoll_context* context, uint8_t device, const plimsoll_block* block);
  void (*adopt_block)(plimsoll_context* context, uint8_t device, const plimsoll_block* block,
                      uint32_t tensor);
  /* The program freed the block: allocated bytes fall, active bytes do not yet. */
  void (*free_requested)(plimsoll_context* context, uint8_t device, uint64_t address);
  /* The block can be allocated again. Without an earlier free_requested, this counts as both. */
  void (*free_completed)(plimsoll_context* context, uint8_t device, uint64_t address);
  void (*segment)(plimsoll_context* context, uint8_t device, uint8_t action, uint64_t address,
                  uint64_t size_bytes, uint64_t stream,
                  uint32_t pool); /* action: a plimsoll_segment_action; pool: as for a block */
  /* `request` failed; its requested bytes, stream and pool are read. limit_bytes is the maximum for
   * this process, device_total_bytes the size of the device; 0: unknown. */
  void (*out_of_memory)(plimsoll_context* context, uint8_t device, const plimsoll_block* request,
                        uint64_t device_free_bytes, uint64_t limit_bytes,
                        uint64_t device_total_bytes);

  /* The listener for ranges; null: none. Read it atomically, with acquire ordering. Adapters report
   * layers and phases to it; mark() itself reports regions, steps and the phase of a backward. */
  const plimsoll_range_listener* const* range_listener;

  /* Not hot. Drains the rings of all threads on the calling thread, which must hold no lock that a
   * reporting thread may wait for. Call it between thousands of events: they may not fit in. */
  void (*settle)(void);

  /* Not hot. Reports a figure of the driver for a device (plimsoll_figure). For PROCESS and
   * PROCESS_UNREPORTED, pid and name identify the process and its command; otherwise both are 0. */
  void (*device_figure)(plimsoll_context* context, uint8_t device, uint8_t figure, uint64_t value,
                        uint32_t pid, uint32_t name);

  /* Not hot, like name(). The last value of a setting or notice applies. A nested setting has a
   * dotted name ("roundup_power2_divisions.1"); type is a plimsoll_setting_type. A notice has a
   * device, the count so far, and the reason (name id, 0: none). */
  void (*setting)(uint32_t name, uint8_t type, uint64_t value);
  void (*notice)(uint8_t notice, uint8_t device, uint64_t count, uint32_t text);
  /* Not hot. Where a function of a frame begins; and a module: its path (the layer), its class,
   * the bytes of the parameters that it has directly, and its plimsoll_module_state. The last
   * module with a path applies. */
  void (*function)(uint32_t file, uint32_t name, uint32_t first_line);
  void (*module)(uint32_t path, uint32_t type, uint64_t parameter_bytes, uint8_t state);

  /* Last uses (docs/last-use.md). A use is measured in allocations: a counter of all allocations of
   * the process is the clock.
   *
   * observe_uses: whether uses are reported from now on; not hot. Begin and end it between
   * operators. Memory that was live while they were not has an unknown last use, except for what
   * the observed spans themselves show. Turn it on again for each recording. */
  void (*observe_uses)(plimsoll_context* context, int is_on);
  /* Hot path. The thread's running operator reads or writes the memory at these addresses, until
   * end_uses(). Addresses that are not live are ignored. */
  void (*use)(plimsoll_context* context, const uint64_t* addresses, size_t count);
  /* The thread's outermost operator (or autograd node) has ended, and with it its uses. */
  void (*end_uses)(plimsoll_context* context);
  /* The memory at this address may be read without an operator from now on, or was: its last use is
   * unknown. Not hot. */
  void (*escape)(uint64_t address);
  /* Returns the clock: allocations since uses were first observed. */
  uint64_t (*use_clock)(void);
  /* A region begins (1) or ends (0) on this thread; regions may be nested. Uses last until the
   * outermost region ends, and memory that the thread allocates meanwhile is in use, too. After the
   * end, call end_uses() unless an operator is running. */
  void (*use_region)(plimsoll_context* context, int is_begin);
  /* The thread's running operator keeps what it uses or allocates, where no later operator shows
   * its uses: all of it escapes when the operator ends. */
  void (*escape_uses)(plimsoll_context* context);

  /* What holds the live memory now. Not hot; takes a lock, and drains the rings as settle() does.
   * Addresses that are not live are ignored. */
  void (*holders)(plimsoll_context* context, const plimsoll_holders* holders);
  /* Returns whether holders() is wanted, a plimsoll_holders_wanted; once for each time that it is.
   * Takes one instruction otherwise: ask at the end of each step. */
  int (*wants_holders)(void);
} plimsoll_recorder_api;

/* Returns the recorder of this process, which is never destroyed. */
PLIMSOLL_EXPORT const plimsoll_recorder_api* plimsoll_recorder(void);

/* A recording writes the events to a sink. Several may run simultaneously; each begins with all
 * live memory. Its functions ignore null and may be called from any thread, but not during or after
 * stop and take, which destroy it. flush, attach, stop and take may wait for a file. */
enum plimsoll_sink {
  PLIMSOLL_SINK_FILE = 0,
  PLIMSOLL_SINK_MEMORY = 1,
  PLIMSOLL_SINK_STREAM = 2,
  PLIMSOLL_SINK_NULL = 3
};

typedef struct plimsoll_recording_options {
  uint32_t size_bytes; /* sizeof(plimsoll_recording_options) */
  uint8_t sink;        /* plimsoll_sink */
  uint8_t in_children; /* after fork: 0 the child records nothing, 1 into its own file, PATH.PID */
  uint8_t marks_layer_calls; /* 1: LAYER_BEGIN and LAYER_END are recorded; 0: they are not */
  uint8_t replaces;          /* FILE: 1 replaces an earlier trace at `path`; 0 keeps it */
  const char* path; /* FILE: path of the file. An existing file is kept: the recording goes to the
                       next free name, "run.2.plim" for "run.plim" (plimsoll_recording_path) */
  uint64_t max_events; /* keep about the newest N events; 0: all. A FILE then grows to twice that
                          size before it is replaced */
  /* STREAM: receives each complete block; returns 0 when it accepts no more. Called on a thread of
   * the recorder, and on one that flushes or stops; one call at a time. It must not call the
   * recording's functions. Before flush and stop, release any lock that it takes. Data left at the
   * end of the process is not sent. */
  int (*write)(void* user, const void* data, size_t size_bytes);
  void* user;
  const char* const* meta;   /* metadata for the file's head: key, value, key, value, ..., NULL */
  uint8_t omits_source_text; /* 1: of the source lines that stop adds, only hashes are stored */
} plimsoll_recording_options;

typedef struct plimsoll_recording plimsoll_recording;

typedef struct plimsoll_recording_state {
  uint64_t events;  /* allocations, frees, segments and failed requests, as reports count them */
  uint64_t dropped; /* lost because a ring was full */
  uint64_t evicted; /* missing in the output because of max_events */
  uint64_t written_bytes; /* by the sink */
  uint64_t live_bytes; /* of recorded memory on all devices; for caching allocators, block sizes */
  uint64_t live_count;
  uint64_t replaced;  /* allocations that ended because another allocation took their address: a
                         free was missed */
  uint64_t unmatched; /* frees of memory whose allocation was not recorded */
  uint64_t refused;   /* names, stacks, sites and tensors beyond the limit of the process; they have
                         the id 0 */
  int32_t error; /* errno of the sink's first failure; 0: none. Recording continues, but this sink
                    receives no more */
  uint32_t unrecorded_children; /* forked children that allocated, without in_children */
} plimsoll_recording_state;

/* Starts a recording. Returns null on failure and sets *error (if not null) to the reason, one
 * sentence in static or thread-local storage. */
PLIMSOLL_EXPORT plimsoll_recording* plimsoll_recording_start(
    const plimsoll_recording_options* options, const char** error);
/* Returns the path of the trace file, or "" without one. Valid until the recording is stopped. */
PLIMSOLL_EXPORT const char* plimsoll_recording_path(const plimsoll_recording* recording);
/* Starts the recording that the environment requests, the first time it is called: with PLIMSOLL=1,
 * which `plimsoll run -- PROGRAM` sets, into $PLIMSOLL_OUT or plimsoll-PROGRAM-PID.plim, until the
 * process ends. It runs alongside the program's own recordings. Returns 1 if that recording was
 * started. C++ programs need no call: plimsoll/recorder.h and the LibTorch adapter call it before
 * main(). */
PLIMSOLL_EXPORT int plimsoll_record_from_environment(void);
/* Waits until every event from before this call is in the sink; plimsoll_flush, of all recordings
 * of this process. */
PLIMSOLL_EXPORT void plimsoll_recording_flush(plimsoll_recording* recording);
PLIMSOLL_EXPORT void plimsoll_flush(void);
/* Reads the memory of the process now, and not when the recording ends: for callers whose work
 * before that needs memory of its own. */
PLIMSOLL_EXPORT void plimsoll_recording_read_process(plimsoll_recording* recording);
/* Returns how often an adapter has reported what holds the memory. If `is_wanted` is nonzero, asks
 * the adapter for it at the end of the next step. */
PLIMSOLL_EXPORT uint64_t plimsoll_holder_walks(int is_wanted);
/* Sets `state` to the counts so far. */
PLIMSOLL_EXPORT void plimsoll_recording_get_state(plimsoll_recording* recording,
                                                  plimsoll_recording_state* state);
/* Adds source lines, ends the file, sets `state` (may be null) and destroys the recording. */
PLIMSOLL_EXPORT void plimsoll_recording_stop(plimsoll_recording* recording,
                                             plimsoll_recording_state* state);
/* Stops a MEMORY recording and returns the complete trace, which the caller must free(); null if
 * memory runs out. */
PLIMSOLL_EXPORT void* plimsoll_recording_take(plimsoll_recording* recording,
                                              plimsoll_recording_state* state, size_t* size_bytes);
/* Attaches another tool's file of this run to the trace, unchanged; `format` names its format.
 * Readers support "torch_snapshot" (torch.cuda.memory._snapshot(), pickled, optionally gzipped):
 * the report then includes its devices. The last file of a format applies. Returns 0 or an errno:
 * EFBIG above 64 MiB, ECANCELED when the recording has ended. */
PLIMSOLL_EXPORT int plimsoll_recording_attach(plimsoll_recording* recording, const char* format,
                                              const void* data, size_t size_bytes);
/* MEMORY: returns the trace so far, which the caller must free(); null if memory runs out. */
PLIMSOLL_EXPORT void* plimsoll_recording_copy(plimsoll_recording* recording, size_t* size_bytes);
/* Returns the peak of live bytes on all devices since the last reset; exact as of this call. */
PLIMSOLL_EXPORT uint64_t plimsoll_recording_peak_bytes(plimsoll_recording* recording, int reset);

/* One live allocation. Ids as in plimsoll_context; 0: none or unknown. */
typedef struct plimsoll_live {
  uint64_t serial;          /* number of the allocation; newer ones have higher numbers */
  uint64_t size_bytes;      /* size of the block, if a caching allocator allocated it */
  uint64_t requested_bytes; /* by the program */
  uint32_t layer;
  uint32_t outer_op;
  uint32_t name; /* of the tensor it holds: name ids */
  uint32_t dtype;
  uint32_t shape;
  uint8_t device;
  uint8_t phase;        /* plimsoll_phase */
  uint8_t role;         /* plimsoll_role */
  uint8_t is_adopted;   /* allocated before the recorder first saw it */
  uint8_t is_temporary; /* of a plimsoll_peak: freed since in the operator that allocated it */
} plimsoll_live;

/* Copies at most `capacity` live allocations, in any order, and returns their total number, or 0 if
 * the recording has ended. Memory that only waits for a stream is not included. */
PLIMSOLL_EXPORT size_t plimsoll_recording_live(plimsoll_recording* recording, plimsoll_live* rows,
                                               size_t capacity);

/* The current memory of a device, and its peaks within a span. */
typedef struct plimsoll_usage {
  uint64_t live_bytes; /* allocated bytes */
  uint64_t live_count;
  uint64_t peak_bytes;          /* peak of live bytes in the span, including its beginning */
  uint64_t requested_bytes;     /* of the live allocations */
  uint64_t active_bytes;        /* live bytes, and freed bytes that wait for a stream */
  uint64_t reserved_bytes;      /* segments of a caching allocator */
  uint64_t peak_reserved_bytes; /* since the span began */
  int32_t ordinal;
  uint8_t device_type; /* plimsoll_device_type */
  uint8_t device;
  uint8_t has_segments; /* whether segments were ever reported, so that reserved bytes are known */
  uint8_t reserved;
} plimsoll_usage;

/* Begins a span of time for peaks and returns its id; spans may nest and overlap, on any thread.
 * Returns 0 if there is no memory for it, or the recording has ended. */
PLIMSOLL_EXPORT uint64_t plimsoll_recording_begin_span(plimsoll_recording* recording);
/* Copies the usage of at most `capacity` devices, ordered by device number, and returns the number
 * of devices. For an unknown span, or 0, the peak is the current live bytes. */
PLIMSOLL_EXPORT size_t plimsoll_recording_usage(plimsoll_recording* recording, uint64_t span,
                                                plimsoll_usage* rows, size_t capacity);
PLIMSOLL_EXPORT void plimsoll_recording_end_span(plimsoll_recording* recording, uint64_t span);

/* Reports ranges to this listener from now on, or to none if it is null. The listener must never be
 * destroyed. A call in progress may still reach the previous one. */
PLIMSOLL_EXPORT void plimsoll_listen_to_ranges(const plimsoll_range_listener* listener);

/* Returns the text of a name id, valid for the lifetime of the process; "" for an unknown id. */
PLIMSOLL_EXPORT const char* plimsoll_name_text(uint32_t name, size_t* size_bytes);

#ifdef __cplusplus
}
#endif

#endif
