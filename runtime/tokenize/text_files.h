// Finding the text files that a run reads, always in the same order.
//
// Files named on the command line are taken as they are; directories are walked recursively, by
// sorted path, skipping hidden entries and the directories that the run itself writes to, whose
// content would make the text another one at every start. A file that holds a NUL byte is not text
// and is left out when it came from a directory, refused when it was named. A file named *.jsonl
// holds one document per line (text_blocks.h). Reads the file system; called once, at start.
#pragma once

#include <string>
#include <vector>

#include "runtime/protocol/start_error.h"
#include "runtime/tokenize/text_blocks.h"

namespace muster {

// The files below `paths`, sorted within each path, without what lies in the directories
// `left_out`. Throws StartError for a path that does not exist.
std::vector<std::string> find_data_files(const std::vector<std::string>& paths,
                                         const std::vector<std::string>& left_out = {});

// The texts of all documents, each followed by one NUL byte as the end of a document. Throws
// StartError when a file cannot be read, when a named file is not text, when there is no text at
// all, or above `limit_bytes`.
std::string read_corpus(const std::vector<std::string>& paths, std::uint64_t limit_bytes,
                        const std::vector<std::string>& left_out = {},
                        const std::string& jsonl_field = usual_jsonl_field);

}  // namespace muster
