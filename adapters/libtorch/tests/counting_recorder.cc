// A recorder that stores its calls, for tests of the adapter alone: one line per event, in order,
// and the live blocks. Slow and obvious.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "plimsoll/recorder_c.h"

namespace {

struct Block {
  std::uint64_t size_bytes = 0;
  std::uint32_t tensor = 0;
};

std::mutex g_mutex;
bool g_is_quiet = false;  // only counts, for measurements
std::uint64_t g_events = 0;
std::uint64_t g_used = 0;
std::vector<std::string> g_names{""};
std::map<std::string, std::uint32_t> g_name_ids;
std::vector<std::vector<plimsoll_frame>> g_stacks{{}};
std::vector<std::string> g_tensors{""};
std::map<std::string, std::uint32_t> g_tensor_ids;
std::map<std::uint64_t, Block> g_live;
std::string g_log;
std::string g_copy;

// JSON text; names contain nothing that needs more escaping than this.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string field(const char* key, const std::string& value) {
  return std::string(", \"") + key + "\": " + value;
}

// "train.py:12:step", innermost first, separated by ";".
std::string stack_text(std::uint32_t id) {
  std::string text;
  for (const plimsoll_frame& frame : g_stacks[id]) {
    if (!text.empty()) text += ";";
    text += g_names[frame.file] + ":" + std::to_string(frame.line) + ":" + g_names[frame.function];
  }
  return text;
}

std::string context_text(const plimsoll_context* c) {
  return field("layer", quoted(g_names[c->layer])) +
         field("outer_op", quoted(g_names[c->outer_op])) +
         field("inner_op", quoted(g_names[c->inner_op])) +
         field("forward_op", quoted(g_names[c->forward_op])) +
         field("stack", std::to_string(c->stack)) + field("phase", std::to_string(c->phase)) +
         field("autograd", std::to_string(c->autograd)) +
         field("instance", std::to_string(c->op_instance));
}

void event(const char* kind, const plimsoll_context* c, const std::string& fields) {
  g_log += std::string("{\"kind\": \"") + kind + "\"" + fields + context_text(c) + "}\n";
}

plimsoll_context* context() {
  thread_local auto* mine = new plimsoll_context{};
  return mine;
}
int is_recording() { return 1; }

void alloc(plimsoll_context* c, std::uint8_t /*device*/, std::uint64_t address,
           std::uint64_t size) {
  if (g_is_quiet) {
    ++g_events;
    return;
  }
  const std::lock_guard lock(g_mutex);
  g_live[address] = {size, 0};
  event("alloc", c,
        field("address", std::to_string(address)) + field("size", std::to_string(size)));
}
void free(plimsoll_context* c, std::uint8_t /*device*/, std::uint64_t address) {
  if (g_is_quiet) {
    ++g_events;
    return;
  }
  const std::lock_guard lock(g_mutex);
  const bool is_known = g_live.erase(address) != 0;
  event(is_known ? "free" : "unknown_free", c, field("address", std::to_string(address)));
}
void adopt(plimsoll_context* c, std::uint8_t /*device*/, std::uint64_t address, std::uint64_t size,
           std::uint32_t tensor) {
  if (g_is_quiet) {
    ++g_events;
    return;
  }
  const std::lock_guard lock(g_mutex);
  const bool is_known = g_live.contains(address);
  if (!is_known) g_live[address] = {size, 0};
  event(is_known ? "tag" : "adopt", c,
        field("address", std::to_string(address)) + field("size", std::to_string(size)) +
            field("tensor", g_tensors[tensor].empty() ? "null" : g_tensors[tensor]));
}
void tag(plimsoll_context* c, std::uint8_t device, std::uint64_t address, std::uint32_t tensor) {
  adopt(c, device, address, 0, tensor);
}
void set_phase(plimsoll_context* c, std::uint8_t phase) {
  if (g_is_quiet) return;
  const std::lock_guard lock(g_mutex);
  event("set_phase", c, field("to", std::to_string(phase)));
}
void mark(plimsoll_context* c, std::uint8_t kind, std::uint64_t value) {
  if (g_is_quiet) return;
  const std::lock_guard lock(g_mutex);
  const bool is_region = kind == PLIMSOLL_MARK_REGION_BEGIN || kind == PLIMSOLL_MARK_REGION_END;
  event("mark", c,
        field("mark", std::to_string(kind)) +
            field("value", is_region ? quoted(g_names[value]) : std::to_string(value)));
}

std::uint32_t name(const char* text, std::size_t size) {
  const std::lock_guard lock(g_mutex);
  const auto [entry, is_new] = g_name_ids.emplace(std::string(text, size), g_names.size());
  if (is_new) g_names.emplace_back(text, size);
  return entry->second;
}
std::uint32_t reserve_stack() {
  const std::lock_guard lock(g_mutex);
  g_stacks.emplace_back();
  return static_cast<std::uint32_t>(g_stacks.size() - 1);
}
void define_stack(std::uint32_t id, const plimsoll_frame* frames, std::size_t count) {
  const std::lock_guard lock(g_mutex);
  g_stacks[id].assign(frames, frames + count);
}
std::uint32_t stack(const plimsoll_frame* frames, std::size_t count) {
  const std::uint32_t id = reserve_stack();
  define_stack(id, frames, count);
  return id;
}
std::uint32_t tensor(std::uint8_t role, std::uint32_t name_id, std::uint32_t dtype,
                     std::uint32_t shape) {
  const std::lock_guard lock(g_mutex);
  const std::string text =
      "{\"role\": " + std::to_string(role) + field("name", quoted(g_names[name_id])) +
      field("dtype", quoted(g_names[dtype])) + field("shape", quoted(g_names[shape])) + "}";
  const auto [entry, is_new] = g_tensor_ids.emplace(text, g_tensors.size());
  if (is_new) g_tensors.push_back(text);
  return entry->second;
}
// 0 is the CPU; cuda:0 is 1.
std::uint8_t device(std::uint8_t type, std::int32_t ordinal) {
  return type == PLIMSOLL_DEVICE_CPU ? std::uint8_t{0} : static_cast<std::uint8_t>(ordinal + 1);
}

// ---- caching allocators -------------------------------------------------------------------------

void block_event(const char* kind, plimsoll_context* c, std::uint8_t device,
                 const plimsoll_block& block, const std::string& more = "") {
  event(kind, c,
        field("device", std::to_string(device)) + field("address", std::to_string(block.address)) +
            field("requested", std::to_string(block.requested_bytes)) +
            field("size", std::to_string(block.size_bytes)) +
            field("stream", std::to_string(block.stream)) +
            field("pool", quoted(g_names[block.pool])) + more);
}
void alloc_block(plimsoll_context* c, std::uint8_t device, const plimsoll_block* block) {
  const std::lock_guard lock(g_mutex);
  g_live[block->address] = {block->size_bytes, 0};
  block_event("alloc_block", c, device, *block);
}
void adopt_block(plimsoll_context* c, std::uint8_t device, const plimsoll_block* block,
                 std::uint32_t /*tensor*/) {
  const std::lock_guard lock(g_mutex);
  g_live[block->address] = {block->size_bytes, 0};
  block_event("adopt_block", c, device, *block);
}
void free_requested(plimsoll_context* c, std::uint8_t device, std::uint64_t address) {
  const std::lock_guard lock(g_mutex);
  const bool is_known = g_live.erase(address) != 0;
  event(is_known ? "free_requested" : "unknown_free", c,
        field("device", std::to_string(device)) + field("address", std::to_string(address)));
}
void free_completed(plimsoll_context* c, std::uint8_t device, std::uint64_t address) {
  const std::lock_guard lock(g_mutex);
  event("free_completed", c,
        field("device", std::to_string(device)) + field("address", std::to_string(address)));
}
void segment(plimsoll_context* c, std::uint8_t device, std::uint8_t action, std::uint64_t address,
             std::uint64_t size, std::uint64_t stream, std::uint32_t pool) {
  const std::lock_guard lock(g_mutex);
  event("segment", c,
        field("device", std::to_string(device)) + field("action", std::to_string(action)) +
            field("address", std::to_string(address)) + field("size", std::to_string(size)) +
            field("stream", std::to_string(stream)) + field("pool", quoted(g_names[pool])));
}
void out_of_memory(plimsoll_context* c, std::uint8_t device, const plimsoll_block* request,
                   std::uint64_t free_bytes, std::uint64_t limit_bytes, std::uint64_t total_bytes) {
  const std::lock_guard lock(g_mutex);
  block_event("out_of_memory", c, device, *request,
              field("free", std::to_string(free_bytes)) +
                  field("limit", std::to_string(limit_bytes)) +
                  field("total", std::to_string(total_bytes)));
}
void setting(std::uint32_t name_id, std::uint8_t type, std::uint64_t value) {
  const std::lock_guard lock(g_mutex);
  const std::string text =
      type == PLIMSOLL_SETTING_TEXT      ? quoted(g_names[value])
      : type == PLIMSOLL_SETTING_NUMBER  ? std::to_string(std::bit_cast<double>(value))
      : type == PLIMSOLL_SETTING_INTEGER ? std::to_string(static_cast<std::int64_t>(value))
                                         : std::to_string(value);
  event("setting", context(), field("name", quoted(g_names[name_id])) + field("value", text));
}
void notice(std::uint8_t what, std::uint8_t device, std::uint64_t count, std::uint32_t text) {
  const std::lock_guard lock(g_mutex);
  event("notice", context(),
        field("what", std::to_string(what)) + field("device", std::to_string(device)) +
            field("count", std::to_string(count)) + field("text", quoted(g_names[text])));
}

// ---- last uses ----------------------------------------------------------------------------------

void observe_uses(plimsoll_context* c, int is_on) {
  const std::lock_guard lock(g_mutex);
  event("observe_uses", c, field("on", std::to_string(is_on)));
}
void use(plimsoll_context* c, const std::uint64_t* addresses, std::size_t count) {
  if (g_is_quiet) {
    g_used += count;
    return;
  }
  const std::lock_guard lock(g_mutex);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(addresses[i]);
  }
  event("use", c, field("addresses", "[" + text + "]"));
}
void end_uses(plimsoll_context* c) {
  if (g_is_quiet) return;
  const std::lock_guard lock(g_mutex);
  event("end_uses", c, "");
}
void escape(std::uint64_t address) {
  const std::lock_guard lock(g_mutex);
  event("escape", context(), field("address", std::to_string(address)));
}
std::uint64_t use_clock() { return 0; }
void use_region(plimsoll_context* c, int is_begin) {
  const std::lock_guard lock(g_mutex);
  event("use_region", c, field("begin", std::to_string(is_begin)));
}
void escape_uses(plimsoll_context* c) {
  const std::lock_guard lock(g_mutex);
  event("escape_uses", c, "");
}

void holders(plimsoll_context* c, const plimsoll_holders* found) {
  const std::lock_guard lock(g_mutex);
  std::string links;
  for (std::size_t i = 0; i < found->link_count; ++i) {
    const plimsoll_holder_link& link = found->links[i];
    links += (i == 0 ? "" : ", ") + quoted(g_names[link.name] + "/" + g_names[link.type] + "/" +
                                           std::to_string(link.parent));
  }
  event("holders", c,
        field("end", std::to_string(found->end)) +
            field("objects", std::to_string(found->objects)) + field("links", "[" + links + "]") +
            field("held", std::to_string(found->held_count)) +
            field("cuts", std::to_string(found->cut_count)));
}

const plimsoll_range_listener* g_no_listener = nullptr;

constexpr plimsoll_recorder_api kApi = {
    .abi_version = PLIMSOLL_RECORDER_ABI,
    .size_bytes = sizeof(plimsoll_recorder_api),
    .context = context,
    .is_recording = is_recording,
    .alloc = alloc,
    .free = free,
    .adopt = adopt,
    .tag = tag,
    .set_phase = set_phase,
    .mark = mark,
    .name = name,
    .stack = stack,
    .reserve_stack = reserve_stack,
    .define_stack = define_stack,
    .tensor = tensor,
    .device = device,
    .alloc_block = alloc_block,
    .adopt_block = adopt_block,
    .free_requested = free_requested,
    .free_completed = free_completed,
    .segment = segment,
    .out_of_memory = out_of_memory,
    .range_listener = &g_no_listener,
    .settle = [] {},
    .device_figure = [](plimsoll_context*, std::uint8_t, std::uint8_t, std::uint64_t, std::uint32_t,
                        std::uint32_t) {},
    .setting = setting,
    .notice = notice,
    .function = [](std::uint32_t, std::uint32_t, std::uint32_t) {},
    .module = [](std::uint32_t, std::uint32_t, std::uint64_t, std::uint8_t) {},
    .observe_uses = observe_uses,
    .use = use,
    .end_uses = end_uses,
    .escape = escape,
    .use_clock = use_clock,
    .use_region = use_region,
    .escape_uses = escape_uses,
    .holders = holders,
    .wants_holders = []() -> int { return PLIMSOLL_HOLDERS_NOT_WANTED; },
};

}  // namespace

extern "C" {

PLIMSOLL_EXPORT const plimsoll_recorder_api* counting_recorder() { return &kApi; }
PLIMSOLL_EXPORT void counting_be_quiet(int is_quiet) { g_is_quiet = is_quiet != 0; }
PLIMSOLL_EXPORT std::uint64_t counting_events() { return g_events; }

// All events since the last call, as lines of JSON. Valid until the next call.
PLIMSOLL_EXPORT const char* counting_take_log() {
  const std::lock_guard lock(g_mutex);
  g_copy.swap(g_log);
  g_log.clear();
  return g_copy.c_str();
}
PLIMSOLL_EXPORT const char* counting_stack(std::uint32_t id) {
  const std::lock_guard lock(g_mutex);
  g_copy = stack_text(id);
  return g_copy.c_str();
}
PLIMSOLL_EXPORT std::uint64_t counting_live_bytes() {
  const std::lock_guard lock(g_mutex);
  std::uint64_t sum = 0;
  for (const auto& [address, block] : g_live) sum += block.size_bytes;
  return sum;
}
PLIMSOLL_EXPORT void counting_clear() {
  const std::lock_guard lock(g_mutex);
  g_live.clear();
  g_log.clear();
}
}
