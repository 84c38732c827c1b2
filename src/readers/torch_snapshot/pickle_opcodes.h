// The opcodes of pickle, named as in CPython's Lib/pickle.py, and how the machine treats them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll::readers::torch_snapshot {

enum class Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kEmptyDict = '}',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kSetItems = 'u',
  kTuple = 't',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// The size of an opcode's argument: a number, or the length of the data that follows.
inline std::size_t argument_width(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBinGet:
    case Opcode::kBinPut:
    case Opcode::kBinInt1:
    case Opcode::kLong1:
    case Opcode::kShortBinUnicode:
    case Opcode::kShortBinString:
    case Opcode::kShortBinBytes:
    case Opcode::kProto:
      return 1;
    case Opcode::kBinInt2:
      return 2;
    case Opcode::kBinInt:
    case Opcode::kLong4:
    case Opcode::kBinUnicode:
    case Opcode::kBinString:
    case Opcode::kBinBytes:
    case Opcode::kLongBinGet:
    case Opcode::kLongBinPut:
      return 4;
    case Opcode::kBinFloat:
    case Opcode::kBinUnicode8:
    case Opcode::kBinBytes8:
    case Opcode::kFrame:
      return 8;
    default:
      return 0;
  }
}

// Whether it pushes a value that contains no other value.
inline bool is_plain_value(Opcode opcode) {
  switch (opcode) {
    case Opcode::kNone:
    case Opcode::kNewTrue:
    case Opcode::kNewFalse:
    case Opcode::kBinInt1:
    case Opcode::kBinInt2:
    case Opcode::kBinInt:
    case Opcode::kBinFloat:
    case Opcode::kLong1:
    case Opcode::kLong4:
    case Opcode::kShortBinUnicode:
    case Opcode::kShortBinString:
    case Opcode::kBinUnicode:
    case Opcode::kBinString:
    case Opcode::kBinUnicode8:
    case Opcode::kShortBinBytes:
    case Opcode::kBinBytes:
    case Opcode::kBinBytes8:
      return true;
    default:
      return false;
  }
}

// The name of an opcode that could run code or reach outside the file, else null.
inline const char* unsafe_name(std::uint8_t opcode) {
  switch (opcode) {
    case 'c':
      return "GLOBAL";
    case 0x93:
      return "STACK_GLOBAL";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 0x81:
      return "NEWOBJ";
    case 0x92:
      return "NEWOBJ_EX";
    case 0x82:
      return "EXT1";
    case 0x83:
      return "EXT2";
    case 0x84:
      return "EXT4";
    case 'P':
      return "PERSID";
    case 'Q':
      return "BINPERSID";
    case 0x97:
      return "NEXT_BUFFER";
    case 0x98:
      return "READONLY_BUFFER";
    default:
      return nullptr;
  }
}

// The name of a harmless opcode that no snapshot needs (protocol 0, sets, bytearrays), else null.
inline const char* foreign_name(std::uint8_t opcode) {
  switch (opcode) {
    case 'I':
      return "INT";
    case 'L':
      return "LONG";
    case 'F':
      return "FLOAT";
    case 'S':
      return "STRING";
    case 'V':
      return "UNICODE";
    case 'd':
      return "DICT";
    case 'l':
      return "LIST";
    case 'g':
      return "GET";
    case 'p':
      return "PUT";
    case 0x8f:
      return "EMPTY_SET";
    case 0x90:
      return "ADDITEMS";
    case 0x91:
      return "FROZENSET";
    case 0x96:
      return "BYTEARRAY8";
    default:
      return nullptr;
  }
}

}  // namespace plimsoll::readers::torch_snapshot
