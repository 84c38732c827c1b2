/* The recorder's C interface: what an allocator, a framework adapter or a training loop calls to
 * have its memory recorded. Everything here may be called from any thread, never throws, never
 * blocks on a file, and does nothing while no recording runs.
 *
 * An adapter is a binary of its own and links nothing of ours: it is handed a plimsoll_recorder_api
 * and checks abi_version. Members are only ever appended, and size_bytes says how many there are; a
 * change of what is there makes a new abi_version.
 *
 *   plimsoll_context* context = api->context();        // once a thread
 *   context->layer = api->name("model.fc1", 9);        // what the thread is doing, written by that
 * thread alone api->alloc(context, device, address, 4096); api->free(context, device, address);
 */
#ifndef PLIMSOLL_RECORDER_C_H_
#define PLIMSOLL_RECORDER_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLIMSOLL_RECORDER_ABI 1u

#if defined(_WIN32)
#define PLIMSOLL_EXPORT
#else
#define PLIMSOLL_EXPORT __attribute__((visibility("default")))
#endif

/* What a thread is in the middle of. */
enum plimsoll_phase {
  PLIMSOLL_PHASE_OTHER = 0,
  PLIMSOLL_PHASE_FORWARD = 1,
  PLIMSOLL_PHASE_BACKWARD = 2,
  PLIMSOLL_PHASE_OPTIMIZER = 3,
  PLIMSOLL_PHASE_DATA = 4
};

enum plimsoll_device_type {
  PLIMSOLL_DEVICE_CPU = 0,
  PLIMSOLL_DEVICE_CUDA = 1,
  PLIMSOLL_DEVICE_HIP = 2,
  PLIMSOLL_DEVICE_XPU = 3,
  PLIMSOLL_DEVICE_PINNED_HOST = 4,
  PLIMSOLL_DEVICE_OTHER = 5
};

/* What a tensor is to the program that holds it. KNOWN: nothing but its dtype and shape is known.
 */
enum plimsoll_role {
  PLIMSOLL_ROLE_KNOWN = 0,
  PLIMSOLL_ROLE_PARAMETER = 1,
  PLIMSOLL_ROLE_GRADIENT = 2,
  PLIMSOLL_ROLE_OPTIMIZER_STATE = 3,
  PLIMSOLL_ROLE_BUFFER = 4,
  PLIMSOLL_ROLE_INPUT = 5
};

enum plimsoll_mark {
  PLIMSOLL_MARK_STEP = 0,           /* value: the number of the step that ends here */
  PLIMSOLL_MARK_REGION_BEGIN = 1,   /* value: name id */
  PLIMSOLL_MARK_REGION_END = 2,     /* value: name id */
  PLIMSOLL_MARK_BACKWARD_BEGIN = 3, /* value: 0 */
  PLIMSOLL_MARK_BACKWARD_END = 4,   /* value: 0 */
  PLIMSOLL_MARK_OUT_OF_MEMORY = 5,  /* value: the bytes asked for; out_of_memory() tells more */
  /* What this thread does from here on, for events that others told without saying so, by their
   * time (see plimsoll_recording_attach). */
  PLIMSOLL_MARK_LAYER = 6,    /* value: name id, 0: none */
  PLIMSOLL_MARK_OPERATOR = 7, /* value: name id of the outermost operator, 0: none */
  PLIMSOLL_MARK_PHASE = 8,    /* value: plimsoll_phase */
  /* A call of a layer's forward, or a LayerScope. Recorded only for recordings that set
   * marks_layer_calls. */
  PLIMSOLL_MARK_LAYER_BEGIN = 9, /* value: name id */
  PLIMSOLL_MARK_LAYER_END = 10,  /* value: name id */
  /* value: 0. The program marks its steps: those before, which optimizers marked, do not count. */
  PLIMSOLL_MARK_OWN_STEPS = 11
};

/* What this thread is doing: read at each alloc and free. Written by its own thread alone; ids are
 * those that name() and stack() gave, 0: none or not known. */
typedef struct plimsoll_context {
  uint32_t layer; /* name of the module whose forward runs; in backward, of the forward operator's
                     module */
  uint32_t outer_op;    /* name of the outermost operator running; in backward the autograd node */
  uint32_t inner_op;    /* name of the innermost one */
  uint32_t forward_op;  /* in backward: name of the forward operator that made the autograd node */
  uint32_t stack;       /* Python stack at the start of the outermost operator (in backward: of the
                           forward one) */
  uint32_t op_instance; /* counts this thread's outermost operators: another number, another call;
                           0: none runs */
  uint8_t phase;        /* plimsoll_phase */
  uint8_t reserved[7];  /* 0 */
} plimsoll_context;

typedef struct plimsoll_frame {
  uint32_t file;     /* name id */
  uint32_t function; /* name id */
  uint32_t line;     /* from 1; 0: not known */
} plimsoll_frame;

/* One block that a caching allocator (PyTorch's on CUDA) handed out, or was asked for in vain. */
typedef struct plimsoll_block {
  uint64_t address;
  uint64_t requested_bytes; /* what the program asked for */
  uint64_t size_bytes; /* of the block, after rounding and splitting: what allocated bytes count */
  uint64_t stream;     /* as the framework tells it; 0: the default stream */
  uint32_t pool;       /* name id of a private pool, "FIRST.SECOND" in decimal; 0: the default
                          pools */
  uint32_t reserved;   /* 0 */
} plimsoll_block;

/* What a caching allocator does with the memory that it has from the driver: whole segments, or,
 * where segments can grow (expandable ones), ranges of pages. */
enum plimsoll_segment_action {
  PLIMSOLL_SEGMENT_ALLOC = 0,
  PLIMSOLL_SEGMENT_FREE = 1,
  PLIMSOLL_SEGMENT_MAP = 2,
  PLIMSOLL_SEGMENT_UNMAP = 3
};

/* What the driver tells of a device, all processes together: one look is some figures, told by one
 * thread without a pause, TOTAL first and FREE last. What is not known is left out. */
enum plimsoll_figure {
  PLIMSOLL_FIGURE_TOTAL = 0,
  PLIMSOLL_FIGURE_FREE = 1,
  PLIMSOLL_FIGURE_DRIVER = 2,          /* kept by driver and firmware: neither used nor free */
  PLIMSOLL_FIGURE_OWN = 3,             /* of this process; 0: it is not on the device */
  PLIMSOLL_FIGURE_CONTEXT = 4,         /* of those, what CUDA itself took when it began here */
  PLIMSOLL_FIGURE_NCCL = 5,            /* value: 0; NCCL works in this process */
  PLIMSOLL_FIGURE_PROCESS = 6,         /* of another process */
  PLIMSOLL_FIGURE_PROCESS_UNTOLD = 7,  /* value: 0; another process, whose bytes are not told */
  PLIMSOLL_FIGURE_PROCESSES_UNTOLD = 8 /* value: 0; other processes are not listed at all */
};

/* A setting of a caching allocator: what the 64 bits of its value are. */
enum plimsoll_setting_type {
  PLIMSOLL_SETTING_TRUTH = 0,   /* 0 or 1 */
  PLIMSOLL_SETTING_INTEGER = 1, /* an int64_t */
  PLIMSOLL_SETTING_NUMBER = 2,  /* the bits of a double */
  PLIMSOLL_SETTING_TEXT = 3     /* a name id; 0: empty */
};

/* What went other than it should while recording. A closed list: numbers are never given again. */
enum plimsoll_notice {
  PLIMSOLL_NOTICE_SIZES_MENDED = 1,      /* blocks whose size the allocator's own sums told */
  PLIMSOLL_NOTICE_SUMS_UNEXPLAINED = 2,  /* sums that no single block explains */
  PLIMSOLL_NOTICE_SIZES_UNPROVED = 3,    /* allocations whose sizes no sum has proved */
  PLIMSOLL_NOTICE_HISTORY_STANDS_IN = 4, /* torch's own history is recorded instead; text: why */
  PLIMSOLL_NOTICE_DEVICE_UNSEEN = 5,     /* device memory is not recorded at all; text: why */
  PLIMSOLL_NOTICE_FAILURES_UNTOLD = 6,   /* recorded, and not told of while the program ran */
  PLIMSOLL_NOTICE_NAMES_REFUSED = 7,     /* events with a name or stack beyond the limit */
  PLIMSOLL_NOTICE_DETAILS_LOST = 8       /* layers, lines, tensors: there was no memory */
};

/* Ranges: spans of a thread's time that have a name. They are told, as they begin and end, to
 * whoever shows them in another tool's timeline (plimsoll_listen_to_ranges). */
enum plimsoll_range {
  PLIMSOLL_RANGE_PHASE = 0, /* value: plimsoll_phase */
  PLIMSOLL_RANGE_LAYER = 1, /* value: name id */
  PLIMSOLL_RANGE_REGION = 2 /* value: name id */
};

/* Called on the thread that the range belongs to; must not call the recording's functions that end
 * it. An end is that of the thread's innermost open range with this value; ends may come whose
 * beginnings did not, and the other way round. */
typedef struct plimsoll_range_listener {
  void (*begin)(uint8_t range, uint32_t value);
  void (*end)(uint8_t range, uint32_t value);
  void (*step)(uint64_t number); /* the step that ends here */
} plimsoll_range_listener;

typedef struct plimsoll_recorder_api {
  uint32_t abi_version; /* PLIMSOLL_RECORDER_ABI */
  uint32_t size_bytes;  /* of this struct */

  /* This thread's context. Never null; the same address as long as the thread lives. */
  plimsoll_context* (*context)(void);
  /* Not 0 while at least one recording runs. */
  int (*is_recording)(void);

  /* Hot. alloc: after the memory was taken. free: before it is given back. */
  void (*alloc)(plimsoll_context* context, uint8_t device, uint64_t address, uint64_t size_bytes);
  void (*free)(plimsoll_context* context, uint8_t device, uint64_t address);

  /* Memory that lived already when it was first met: at the start of the recording, or taken behind
   * the adapter's back. `tensor` may be 0. An address that is live already is only tagged. */
  void (*adopt)(plimsoll_context* context, uint8_t device, uint64_t address, uint64_t size_bytes,
                uint32_t tensor);
  /* The live memory at `address` holds this tensor. Of several roles the gravest holds, in the
   * order of plimsoll_role, KNOWN last; unknown addresses are passed over. */
  void (*tag)(plimsoll_context* context, uint8_t device, uint64_t address, uint32_t tensor);
  /* With hindsight: what this thread's running outermost operator allocated belongs to this phase.
   */
  void (*set_phase)(plimsoll_context* context, uint8_t phase);
  void (*mark)(plimsoll_context* context, uint8_t mark, uint64_t value);

  /* Interning: not hot, takes a lock and may allocate. The same text gives the same id for the life
   * of the process. */
  uint32_t (*name)(const char* text, size_t size_bytes);
  uint32_t (*stack)(const plimsoll_frame* frames, size_t count); /* innermost first */
  /* A stack id to be used now and told later by define_stack(), because the frames cannot be read
   * here. */
  uint32_t (*reserve_stack)(void);
  void (*define_stack)(uint32_t stack, const plimsoll_frame* frames, size_t count);
  uint32_t (*tensor)(uint8_t role, uint32_t name, uint32_t dtype, uint32_t shape); /* name ids */
  uint8_t (*device)(uint8_t device_type, int32_t ordinal); /* 0 is the CPU */

  /* Caching allocators, hot: size_bytes says whether the recorder has these. Call them in the order
   * in which the allocator does its work, that is, under its lock. A recording that begins while it
   * works is told the segments there are (ALLOC or MAP), then each block (adopt_block), then
   * free_requested of those that wait for a stream. */
  void (*alloc_block)(plimsoll_context* context, uint8_t device, const plimsoll_block* block);
  void (*adopt_block)(plimsoll_context* context, uint8_t device, const plimsoll_block* block,
                      uint32_t tensor);
  /* The program gave it back: allocated bytes fall, active bytes do not yet. */
  void (*free_requested)(plimsoll_context* context, uint8_t device, uint64_t address);
  /* It can be handed out again. Without a free_requested before, both at once, as free(). */
  void (*free_completed)(plimsoll_context* context, uint8_t device, uint64_t address);
  void (*segment)(plimsoll_context* context, uint8_t device, uint8_t action, uint64_t address,
                  uint64_t size_bytes, uint64_t stream,
                  uint32_t pool); /* plimsoll_segment_action; the pool as of a block */
  /* `request` (its requested bytes, stream and pool) could not be met. limit: the most the process
   * may hold, total: what the device has; 0: not known. */
  void (*out_of_memory)(plimsoll_context* context, uint8_t device, const plimsoll_block* request,
                        uint64_t device_free_bytes, uint64_t limit_bytes,
                        uint64_t device_total_bytes);

  /* Where the listener to ranges stands: null while nobody listens. To be read as an atomic, with
   * acquire. Layers and phases are told by who sees them; mark() tells regions, steps and the phase
   * of a backward by itself. */
  const plimsoll_range_listener* const* range_listener;

  /* Takes what all threads have told so far out of their rings, on the calling thread. Not hot: for
   * who tells thousands of things at once, between them, since what does not fit a ring is lost.
   * The caller holds no lock that anyone waits for while telling. */
  void (*settle)(void);

  /* Not hot: what the driver tells of a device (plimsoll_figure); of PROCESS and PROCESS_UNTOLD
   * with the process's pid and the name id of its command, else 0. */
  void (*device_figure)(plimsoll_context* context, uint8_t device, uint8_t figure, uint64_t value,
                        uint32_t pid, uint32_t name);

  /* Not hot, as name(). Both are told as they are now: what was told of the same before is out of
   * date. A nested setting has a dotted name ("roundup_power2_divisions.1"); type is a
   * plimsoll_setting_type. A notice is of a device, with how often so far, and why (name id, 0). */
  void (*setting)(uint32_t name, uint8_t type, uint64_t value);
  void (*notice)(uint8_t notice, uint8_t device, uint64_t count, uint32_t text);
} plimsoll_recorder_api;

/* The recorder of this process; lives for ever. */
PLIMSOLL_EXPORT const plimsoll_recorder_api* plimsoll_recorder(void);

/* Recordings: what becomes of the events. Several may run at once; each begins with everything that
 * is live. */
enum plimsoll_sink {
  PLIMSOLL_SINK_FILE = 0,
  PLIMSOLL_SINK_MEMORY = 1,
  PLIMSOLL_SINK_STREAM = 2,
  PLIMSOLL_SINK_NULL = 3
};

typedef struct plimsoll_recording_options {
  uint32_t size_bytes; /* sizeof(plimsoll_recording_options) */
  uint8_t sink;        /* plimsoll_sink */
  uint8_t
      in_children; /* after fork: 0 the child records nothing, 1 into a file of its own, PATH.PID */
  uint8_t marks_layer_calls; /* 1: LAYER_BEGIN and LAYER_END are recorded; 0: they are not */
  uint8_t replaces;          /* FILE: 1 replaces an earlier trace at `path`; 0 keeps it */
  const char* path;    /* FILE: where to. What is there is kept: the recording goes to the next free
                          name, "run.2.plim" for "run.plim" (plimsoll_recording_path) */
  uint64_t max_events; /* keep the newest so many, about; 0: all of them. A FILE then grows to
                          twice that before it is made anew */
  /* STREAM: gets each block as it is made; returns 0 when it can take no more. Called on a
   * thread of the recorder's, and on one that flushes or stops; one call at a time. It must not
   * call the recording's functions. Whoever holds a lock that it takes lets go of it before flush
   * and stop. What is left at the end of the process is not sent. */
  int (*write)(void* user, const void* data, size_t size_bytes);
  void* user;
  const char* const*
      meta; /* what to write into the file's head: key, value, key, value, ..., NULL */
} plimsoll_recording_options;

typedef struct plimsoll_recording plimsoll_recording;

typedef struct plimsoll_recording_state {
  uint64_t events;        /* allocations, frees, segments, failed requests: as reports count */
  uint64_t dropped;       /* lost because a ring was full */
  uint64_t evicted;       /* forgotten because of max_events */
  uint64_t written_bytes; /* by the sink */
  uint64_t live_bytes;    /* on all devices, of what is recorded; of caching allocators blocks */
  uint64_t live_count;
  uint64_t replaced;  /* allocations that ended because another one took their address: a free was
                         missed */
  uint64_t unmatched; /* frees of memory that nobody saw being allocated */
  uint64_t refused;   /* names, stacks, sites and tensors beyond what the process may define: 0 was
                         given */
  int32_t error; /* errno of the sink's first failure, 0: none. Recording goes on, this sink gets no
                    more */
  int32_t reserved;
} plimsoll_recording_state;

/* Null on failure, and then *error says why in one sentence (static or thread-local storage). */
PLIMSOLL_EXPORT plimsoll_recording* plimsoll_recording_start(
    const plimsoll_recording_options* options, const char** error);
/* The file that it writes, or "": good until the recording is stopped. */
PLIMSOLL_EXPORT const char* plimsoll_recording_path(const plimsoll_recording* recording);
/* Starts the recording that the environment asks for, the first time it is called: with PLIMSOLL=1,
 * which `plimsoll run -- PROGRAM` sets, into $PLIMSOLL_OUT or plimsoll-PROGRAM-PID.plim, until the
 * process ends. It runs alongside the program's own recordings. Returns 1 if that recording was
 * started. C++ programs need no call: plimsoll/recorder.h and the LibTorch adapter call it before
 * main(). */
PLIMSOLL_EXPORT int plimsoll_record_from_environment(void);
/* Waits until every event of before this call is in the sink. */
PLIMSOLL_EXPORT void plimsoll_recording_flush(plimsoll_recording* recording);
PLIMSOLL_EXPORT void plimsoll_recording_get_state(plimsoll_recording* recording,
                                                  plimsoll_recording_state* state);
/* Flushes, ends the file and gives `state` (may be null). The recording is gone afterwards. */
PLIMSOLL_EXPORT void plimsoll_recording_stop(plimsoll_recording* recording,
                                             plimsoll_recording_state* state);
/* The same of a MEMORY recording, and returns the trace as copy() does, with its end: free() it.
 * Null when there is no memory for it. */
PLIMSOLL_EXPORT void* plimsoll_recording_take(plimsoll_recording* recording,
                                              plimsoll_recording_state* state, size_t* size_bytes);
/* Puts another tool's record of this run into the trace, whole and as it is: `format` names what it
 * is. Readers know "torch_snapshot" (what torch.cuda.memory._snapshot() gives, pickled, and perhaps
 * gzipped): its devices stand in the report beside those of the recording. The last one of a format
 * counts. Returns 0 or an errno: EFBIG above 64 MiB; ECANCELED when the recording has ended. */
PLIMSOLL_EXPORT int plimsoll_recording_attach(plimsoll_recording* recording, const char* format,
                                              const void* data, size_t size_bytes);
/* MEMORY: the whole trace as it would stand in a file, now. free() it. Null when there is no memory
 * for it. */
PLIMSOLL_EXPORT void* plimsoll_recording_copy(plimsoll_recording* recording, size_t* size_bytes);
/* Live bytes on all devices now, and the most there were since the last reset; exact, as of this
 * call. */
PLIMSOLL_EXPORT uint64_t plimsoll_recording_peak_bytes(plimsoll_recording* recording, int reset);

/* One live allocation. Ids as in plimsoll_context; 0: none or not known. */
typedef struct plimsoll_live {
  uint64_t serial;          /* counts allocations: the higher, the younger */
  uint64_t size_bytes;      /* of the block where a caching allocator handed it out */
  uint64_t requested_bytes; /* what the program asked for */
  uint32_t layer;
  uint32_t outer_op;
  uint32_t name; /* of the tensor it holds: name ids */
  uint32_t dtype;
  uint32_t shape;
  uint8_t device;
  uint8_t phase;      /* plimsoll_phase */
  uint8_t role;       /* plimsoll_role */
  uint8_t is_adopted; /* it lived before it was first met */
} plimsoll_live;

/* What is live, as of this call: how many, of which the first `capacity` are copied, in no order. 0
 * once the recording has ended. What only waits for a stream is not among it. */
PLIMSOLL_EXPORT size_t plimsoll_recording_live(plimsoll_recording* recording, plimsoll_live* rows,
                                               size_t capacity);

/* What a device held when it was asked, and the most since a moment. */
typedef struct plimsoll_usage {
  uint64_t live_bytes; /* allocated bytes */
  uint64_t live_count;
  uint64_t peak_bytes;      /* the most live bytes since the span began, its beginning included */
  uint64_t requested_bytes; /* what the program asked for of the live bytes */
  uint64_t active_bytes;    /* live bytes and those that wait for a stream */
  uint64_t reserved_bytes;  /* segments that a caching allocator holds */
  uint64_t peak_reserved_bytes; /* the most since the span began */
  int32_t ordinal;
  uint8_t device_type; /* plimsoll_device_type */
  uint8_t device;
  uint8_t has_segments; /* whether segments were ever told, and so reserved bytes are known */
  uint8_t reserved;
} plimsoll_usage;

/* A span of time whose peaks are wanted; spans may nest and overlap, on any thread. 0: there is no
 * memory for it, or the recording has ended. */
PLIMSOLL_EXPORT uint64_t plimsoll_recording_begin_span(plimsoll_recording* recording);
/* The devices that have been seen, by their number, as of this call: how many, of which the first
 * `capacity` are told. Of an unknown span, or 0, the peak is what is live now. */
PLIMSOLL_EXPORT size_t plimsoll_recording_usage(plimsoll_recording* recording, uint64_t span,
                                                plimsoll_usage* rows, size_t capacity);
/* What lived on a device at that peak, in bytes by plimsoll_role, as far as it is known by now.
 * Gives 1 + the plimsoll_phase that made the peak; 0 where the span or the recording has ended:
 * nothing is told then. */
PLIMSOLL_EXPORT int plimsoll_recording_peak_roles(plimsoll_recording* recording, uint64_t span,
                                                  uint8_t device, uint64_t roles[6]);
PLIMSOLL_EXPORT void plimsoll_recording_end_span(plimsoll_recording* recording, uint64_t span);

/* From now on ranges are told to this listener, which lives for ever; null: to nobody. A call that
 * is on its way may still come. */
PLIMSOLL_EXPORT void plimsoll_listen_to_ranges(const plimsoll_range_listener* listener);

/* The text of a name id, for ever; "" for 0 and for ids that nobody gave. */
PLIMSOLL_EXPORT const char* plimsoll_name_text(uint32_t name, size_t* size_bytes);

#ifdef __cplusplus
}
#endif

#endif
