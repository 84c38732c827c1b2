/* Holders: what an adapter finds when it walks from the roots of the program (modules, frames,
 * exceptions) to its tensors. Each link is one reference of a chain; a chain ends at memory. See
 * docs/holders.md. */
#ifndef PLIMSOLL_HOLDERS_C_H_
#define PLIMSOLL_HOLDERS_C_H_

#include <stddef.h>
#include <stdint.h>

/* How a link is held by the link before it. The roots come first. Numbers are never reused. */
enum plimsoll_link_kind {
  PLIMSOLL_LINK_MODULE = 0,    /* root; name: of the module */
  PLIMSOLL_LINK_FRAME = 1,     /* root; name: of the function that runs */
  PLIMSOLL_LINK_EXCEPTION = 2, /* root; being handled, or the last one; name: sys.last_value, ... */
  PLIMSOLL_LINK_NATIVE = 3,    /* root; held by native code, not by Python */
  PLIMSOLL_LINK_CYCLE = 4,     /* root; a garbage cycle, which the next collection frees */
  PLIMSOLL_LINK_ATTRIBUTE = 5, /* name: of the attribute */
  PLIMSOLL_LINK_ITEM = 6,      /* of a container; name: the key or index; none: all of them */
  PLIMSOLL_LINK_LOCAL = 7,     /* of a frame, generator or coroutine; name: of the variable */
  PLIMSOLL_LINK_CLOSURE = 8,   /* of a function; name: of the variable */
  PLIMSOLL_LINK_DEFAULT = 9,   /* of a function; name: of the parameter, if known */
  PLIMSOLL_LINK_GRAD_FN = 10,  /* of a tensor; type: the autograd node */
  PLIMSOLL_LINK_NODE = 11,     /* of a node, towards the inputs of its operator; type: the node */
  PLIMSOLL_LINK_SAVED = 12,    /* saved by a node for its backward; name: of the variable */
  PLIMSOLL_LINK_HOOK = 13,     /* of a module, tensor or node; name: of the dict of hooks */
  PLIMSOLL_LINK_GRADIENT = 14, /* of a tensor: .grad */
  PLIMSOLL_LINK_BASE = 15,     /* memory that a view or an array shares */
  PLIMSOLL_LINK_TRACEBACK = 16, /* of an exception */
  PLIMSOLL_LINK_OTHER = 17,     /* a reference without a name */
  PLIMSOLL_LINK_PART = 18, /* of a torch.nn.Module: a parameter, buffer or module; name: its own */
  PLIMSOLL_LINK_LOST = 19  /* root; memory of C++ to which no pointer leads */
};

typedef struct plimsoll_holder_link {
  uint32_t parent; /* number of an earlier link, from 1; 0: this is a root */
  uint32_t name;   /* name ids; 0: none or unknown */
  uint32_t type;   /* class of the object that this link leads to */
  uint32_t file;   /* of a frame or function; 0: unknown */
  uint32_t line;   /* where the frame is, or where the function begins */
  uint8_t kind;    /* plimsoll_link_kind */
  uint8_t reserved[3];
  uint64_t length; /* entries of the container that this link leads to; 0: none */
  uint64_t limit;  /* most entries that it keeps (deque.maxlen, lru_cache's maxsize); 0: no limit */
} plimsoll_holder_link;

/* Live memory and the last link of its shortest chain. */
typedef struct plimsoll_held {
  uint64_t address;
  uint32_t link; /* number of a link, from 1 */
  uint8_t device;
  uint8_t reserved[3];
} plimsoll_held;

/* What one link alone holds: the memory below it to which nothing else refers.
 * What others hold is the rest of the memory below it. */
typedef struct plimsoll_holder_cut {
  uint32_t link;
  uint32_t other; /* a link that holds some of it, too; 0: none is known */
  uint64_t freed_count;
  uint64_t freed_bytes;
  uint64_t left_count;
  uint64_t left_bytes;
  uint8_t is_native; /* 1: native code holds some of it, too */
  uint8_t reserved[7];
} plimsoll_holder_cut;

/* Why a walk ended early. */
enum plimsoll_walk_end {
  PLIMSOLL_WALK_COMPLETE = 0,
  PLIMSOLL_WALK_OBJECTS = 1, /* too many objects */
  PLIMSOLL_WALK_NODES = 2,   /* too many autograd nodes */
  PLIMSOLL_WALK_MEMORY = 3,  /* no memory for its table */
  PLIMSOLL_WALK_TIME = 4
};

typedef struct plimsoll_holders {
  uint32_t size_bytes; /* sizeof(plimsoll_holders) */
  uint8_t end;         /* plimsoll_walk_end */
  uint8_t reserved[3];
  uint64_t objects; /* Python objects that the walk visited */
  uint64_t nodes;   /* autograd nodes */
  uint64_t duration_ns;
  const plimsoll_holder_link* links;
  size_t link_count;
  const plimsoll_held* held;
  size_t held_count;
  const plimsoll_holder_cut* cuts;
  size_t cut_count;
} plimsoll_holders;

/* Why a recorder wants holders. The higher one counts. */
enum plimsoll_holders_wanted {
  PLIMSOLL_HOLDERS_NOT_WANTED = 0,
  PLIMSOLL_HOLDERS_OF_GROWTH =
      1,                   /* memory has grown from step to step, or run out: not too often */
  PLIMSOLL_HOLDERS_NOW = 2 /* somebody has asked */
};

#endif /* PLIMSOLL_HOLDERS_C_H_ */
