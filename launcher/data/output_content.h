// What a store has already at the path of an output: files below outputs/<name> of the job on this
// node, which the ranks may read and write to. Below the job's directory:
//
//   .present/<name>   what was laid there, as file_sink.h writes settled files
//   .mounted/<name>   where it is not copied: leads to the mount that has it
//
// What ranks wrote is neither replaced nor removed, and is collected as other outputs are; what
// they left as it was laid is not. For a child process that may be killed at any point.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "launcher/data/cache.h"
#include "launcher/staging/file_sink.h"

namespace muster {

struct OutputContent {
  StagedData data;       // by which `missing` is staged
  DataManifest missing;  // not here, or not as the store has it now
  SettledFiles laid;
};

// Lists the store, and compares with what is here. `output.manifest` is the store's identity.
Result<OutputContent> look_at_output(const StagedData& output, const std::filesystem::path& job,
                                     const std::string& node, const TellData& tell);
// Takes what is missing from a tree: as copies, or as links to what is mounted.
Status lay_output(OutputContent& content, const std::filesystem::path& job,
                  const std::filesystem::path& tree, bool is_mounted, const TellData& tell);

// What changes whenever somebody writes to the file.
std::string stamp_of(const struct stat& facts);

// Of any output of the job; it has read what it needs.
Result<CollectReader::IsKnown> left_as_laid(const std::filesystem::path& job);

}  // namespace muster
