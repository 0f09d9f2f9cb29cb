#include "templates/cluster/retention.h"

#include "scheduler/text/duration.h"
#include "templates/yaml/read_options.h"
#include "templates/yaml/value.h"

namespace muster {
namespace {

// What is in use is marked so every few hours, and a submission may take as long.
constexpr Milliseconds shortest = days(1);

void read_keep(const Value& value, RetentionLimits::Keep& keep) {
  if (!value.given()) return;
  const auto text = value.text();
  if (text && *text == "never") {
    keep.reset();
    return;
  }
  const auto duration = text ? parse_duration(*text) : std::nullopt;
  if (!duration || *duration < shortest) {
    value.error("expected a duration of at least 1d such as 90d, or never");
    return;
  }
  keep = *duration;
}

}  // namespace

RetentionFile read_retention_file(const std::string& path, std::string_view text) {
  RetentionFile file;
  FindingList findings;
  if (const auto tree = parse_with_sets(path, text, {}, findings)) {
    MapReader map(Value(*tree, "", findings));
    read_keep(map.take("journal"), file.keep.journal);
    read_keep(map.take("job_folders"), file.keep.job_folders);
    read_keep(map.take("blobs"), file.keep.blobs);
    read_keep(map.take("binaries"), file.keep.binaries);
    read_keep(map.take("run_folders"), file.keep.run_folders);
    map.finish();
  }
  file.findings = findings.take_sorted();
  return file;
}

}  // namespace muster
