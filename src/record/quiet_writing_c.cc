// The C interface of quiet writing.
#include "plimsoll/quiet_writing_c.h"

#include <string>

#include "base/output_file.h"
#include "base/quiet_writing.h"
#include "base/utf8.h"

int plimsoll_begin_quiet_writing() { return plimsoll::base::QuietWriting::begin(); }

void plimsoll_end_quiet_writing(int state) { plimsoll::base::QuietWriting::end(state); }

void plimsoll_print(const char* what, const char* why) try {
  if (what == nullptr || why == nullptr) return;
  plimsoll::base::write_to_stderr("plimsoll: " + plimsoll::base::escaped(what) + ": " +
                                  plimsoll::base::escaped(why) + "\n");
} catch (...) {
  return;  // no memory for the line
}
