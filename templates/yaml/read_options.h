// How a file of ours is read: its kind, what the caller sees of other files, `--set`. Pure.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"
#include "templates/yaml/finding.h"
#include "templates/yaml/node.h"
#include "templates/yaml/value.h"

namespace muster {

enum class FileKind {
  empty,  // nothing but comments: an error
  command,
  sweep,
  pipeline,
  command_component,
  pipeline_component,
  compute,
  environment,
  datastore,
  data_asset,
  cluster,      // compute targets of a site (templates/cluster/file.h), not a kind of Azure ML
  unsupported,  // a known Azure kind that muster does not offer
  unreadable,   // not YAML, or not a map; the findings say why
};

const char* file_kind_name(FileKind kind);
// Describes something that jobs use: a valid file, and nothing that runs.
bool is_resource(FileKind kind);

enum class OnDisk { missing, file, directory };

// How files are seen. A default-made view knows nothing: existence is then not checked, and files
// that have to be read are findings.
struct FileView {
  std::function<OnDisk(const std::string& path)> kind_of;
  // At most `limit` bytes are returned; longer files are an error. Paths are absolute.
  std::function<Result<std::string>(const std::string& path, std::size_t limit)> read;
};

struct ReadOptions {
  std::string cwd = "/";          // absolute; what a relative path of the job file itself means
  std::vector<std::string> sets;  // `a.b=value`, applied in order
  FileView files;
};

// The first step for every file of ours: text and `--set` options in, tree out.
// Null after an error, which is then in `findings`; a null node for an empty file.
std::shared_ptr<const YamlNode> parse_with_sets(const std::string& path, std::string_view text,
                                                const ReadOptions& options, FindingList& findings);

// What is wrong with a `--set a.b=value` itself, whatever the file says; empty: nothing.
std::string set_option_problem(const std::string& option);

// Which kind of file a tree is: by `type`, else by `$schema`, else by its shape. Findings say when
// the two differ and when the kind is one that muster does not offer.
FileKind detect_kind(const Value& root);

}  // namespace muster
