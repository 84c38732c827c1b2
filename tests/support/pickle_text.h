// The content of a pickle as Python's repr() would print it: a slow, obvious unpickler for tests.
// It accepts only the content of a snapshot, and is strict: frames cover the file without gaps,
// batches have at most 1000 items, only remembered values are recalled, exactly one value is left.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::tests {

class PickleText {
 public:
  // Throws std::runtime_error with a description of the error.
  static std::string of(std::string_view pickle) { return PickleText(pickle).run(); }

 private:
  struct Node {
    char kind = 's';  // s: finished text, l: list, d: dict, (: mark
    std::string text;
    std::vector<std::shared_ptr<Node>> items;
  };
  using Value = std::shared_ptr<Node>;

  explicit PickleText(std::string_view pickle) : rest_(pickle) {}

  [[noreturn]] static void fail(const std::string& what) { throw std::runtime_error(what); }
  static void require(bool is_so, const char* what) {
    if (!is_so) fail(what);
  }

  std::string_view take(std::uint64_t len) {
    require(len <= rest_.size(), "it ends too early");
    const std::string_view bytes = rest_.substr(0, len);
    rest_.remove_prefix(len);
    return bytes;
  }
  std::uint64_t number(std::size_t len) {
    std::uint64_t value = 0;
    const std::string_view bytes = take(len);
    for (std::size_t i = 0; i < len; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return value;
  }
  std::string long_integer() {
    const std::uint64_t len = number(1);
    require(len >= 1 && len <= 9, "LONG1 of a strange length");
    if (len == 9) {
      const std::uint64_t value = number(8);
      require(number(1) == 0, "an integer beyond 64 bits");
      return std::to_string(value);
    }
    const std::uint64_t value = number(len);
    const auto shift = static_cast<int>(64 - 8 * len);
    return std::to_string(static_cast<std::int64_t>(value << shift) >> shift);
  }
  static std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

  void push(std::string text) {
    stack_.push_back(std::make_shared<Node>());
    stack_.back()->text = std::move(text);
  }
  void push_container(char kind) {
    stack_.push_back(std::make_shared<Node>());
    stack_.back()->kind = kind;
  }
  std::vector<Value> pop_to_mark() {
    std::vector<Value> items;
    while (!stack_.empty() && stack_.back()->kind != '(') {
      items.insert(items.begin(), stack_.back());
      stack_.pop_back();
    }
    require(!stack_.empty(), "no mark");
    stack_.pop_back();
    require(!stack_.empty(), "no container below the mark");
    return items;
  }
  void fill(char kind, std::size_t most) {
    std::vector<Value> items = pop_to_mark();
    require(stack_.back()->kind == kind, "items for another kind of container");
    require(items.size() <= most, "a batch of more than 1000 items");
    require(kind == 'l' || items.size() % 2 == 0, "a key without a value");
    stack_.back()->items.insert(stack_.back()->items.end(), items.begin(), items.end());
  }
  void make_pair() {
    require(stack_.size() >= 2, "a pair of nothing");
    const std::string second = print(*stack_.back());
    stack_.pop_back();
    stack_.back() =
        std::make_shared<Node>(Node{'s', "(" + print(*stack_.back()) + ", " + second + ")", {}});
  }
  void recall(std::uint64_t place) {
    require(memo_.contains(place), "recalls what was not remembered");
    stack_.push_back(memo_[place]);
  }

  std::string run() {
    require(take(2) == std::string_view("\x80\x04"), "not protocol 4");
    while (true) {
      if (frame_end_ == rest_.size()) frame_end_ = 0;
      const char op = take(1)[0];
      if (op == '.') break;
      step(op);
      require(frame_end_ <= rest_.size(), "an instruction crosses the end of its frame");
    }
    require(rest_.empty(), "bytes after the end");
    require(stack_.size() == 1, "not one value");
    return print(*stack_.back());
  }

  void step(char op) {
    switch (op) {
      case '\x95': {
        const std::uint64_t len = number(8);
        require(len <= rest_.size(), "a frame longer than the file");
        frame_end_ = rest_.size() - len;
        return;
      }
      case '}':
        return push_container('d');
      case ']':
        return push_container('l');
      case '(':
        return push_container('(');
      case 'u':
        return fill('d', 2000);
      case 'e':
        return fill('l', 1000);
      case 'K':
        return push(std::to_string(number(1)));
      case 'M':
        return push(std::to_string(number(2)));
      case 'J':
        return push(std::to_string(static_cast<std::int32_t>(number(4))));
      case '\x8a':
        return push(long_integer());
      case '\x88':
        return push("True");
      case '\x89':
        return push("False");
      case 'N':
        return push("None");
      case '\x8c':
        return push(quoted(take(number(1))));
      case 'X':
        return push(quoted(take(number(4))));
      case '\x86':
        return make_pair();
      case 'q':
        memo_[number(1)] = stack_.back();
        return;
      case 'r':
        memo_[number(4)] = stack_.back();
        return;
      case 'h':
        return recall(number(1));
      case 'j':
        return recall(number(4));
      case 'G': {
        std::uint64_t bits = 0;
        for (char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
        return push(std::to_string(std::bit_cast<double>(bits)));
      }
      default:
        fail("opcode " + std::to_string(static_cast<unsigned char>(op)));
    }
  }

  static std::string print(const Node& node) {
    if (node.kind == 's') return node.text;
    std::string text(1, node.kind == 'l' ? '[' : '{');
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      if (i > 0) text += node.kind == 'd' && i % 2 == 1 ? ": " : ", ";
      text += print(*node.items[i]);
    }
    return text + (node.kind == 'l' ? ']' : '}');
  }

  std::string_view rest_;
  std::size_t frame_end_ = 0;  // bytes left when the frame ends
  std::vector<Value> stack_;
  std::map<std::uint64_t, Value> memo_;
};

}  // namespace plimsoll::tests
