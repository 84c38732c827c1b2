// Reads digests from files and recordings, and compares them.
#pragma once

#include <optional>
#include <string>

#include "comparison/diff.h"
#include "plimsoll/diff.h"
#include "plimsoll/result.h"
#include "plimsoll/session.h"
#include "report/digest.h"

namespace plimsoll::engine {

// Returns the digest in the file, or nullopt if the file is not a digest or cannot be opened.
// Returns an error if the digest is damaged.
Result<std::optional<report::Digest>> read_digest(const std::string& path);

// The same for a file of any format, such as a recording, of which a digest is made.
Result<report::Digest> digest_of(const std::string& path, const ProgressCallback& progress = {});
Result<report::Digest> digest_of(const Session& session, const std::string& path,
                                 const ProgressCallback& progress);

// Compares what the two trained on, be it a CPU and a GPU. Digests without a common point are an
// error.
Result<comparison::Diff> compare_digests(report::Digest before, const report::Digest& after,
                                         const DiffQuestion& question = {});

}  // namespace plimsoll::engine
