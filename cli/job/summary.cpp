#include "cli/job/summary.h"

#include <nlohmann/json.hpp>

#include "cli/job/report.h"
#include "launcher/staging/content_hash.h"

namespace muster {

namespace {

// A row stays below 200 KiB.
constexpr std::size_t files_listed = 1000;

Document tree_document(const Tree& tree) {
  std::string lines;
  std::int64_t bytes = 0;
  std::size_t files = 0;
  Document content = Document::object();
  for (const TreeEntry& entry : tree.entries) {
    lines += entry.path + ' ' + std::to_string(entry.mode) + ' ' +
             (entry.hash.empty() ? entry.target : entry.hash) + '\n';
    if (entry.entry_kind != TreeEntry::Kind::file) continue;
    bytes += entry.size_bytes;
    if (++files <= files_listed) content[entry.path] = entry.hash;
  }
  Document out{{"place", tree.place}, {"files", files}, {"bytes", bytes}};
  out["hash"] = content_hash_of(lines);
  if (files <= files_listed) out["content"] = std::move(content);
  return out;
}

}  // namespace

std::string job_summary(const JobRow& row, const JobHistory& history, const std::string& directory,
                        const std::vector<Tree>& trees) {
  Document report = report_document(row, history, directory);
  report.erase("launch");
  for (Document& attempt : report["attempts"]) {
    for (const char* key : {"first_failure", "stall", "spares"}) attempt.erase(key);
  }
  Document out{{"version", 1}};
  out["report"] = std::move(report);
  out["trees"] = Document::array();
  for (const Tree& tree : trees) out["trees"].push_back(tree_document(tree));
  return out.dump(-1, ' ', false, Document::error_handler_t::replace);
}

Result<std::optional<Document>> kept_report(const FoundJob& found) {
  const auto kept = found.store->summary_of(found.id());
  if (!kept) return kept.error();
  if (!*kept) return std::optional<Document>{};
  Document summary = Document::parse(**kept, nullptr, false);
  if (!summary.is_object() || !summary.contains("report")) return std::optional<Document>{};
  return std::optional(std::move(summary["report"]));
}

std::string why_no_history(const FoundJob& found) {
  const auto kept = found.store->summary_of(found.id());
  if (!kept || !*kept) return "";
  return "the records of job " + found.row.name +
         " were removed (journal in retention.yml); `muster status " + found.row.name +
         " -o json` shows the summary that is left";
}

}  // namespace muster
