// `muster lineage JOB`: what a job was made of, from the store alone. `muster diff JOB JOB`: in
// what two jobs differ. Whatever the spec has about an input or the environment is shown, by its
// name.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/job/report.h"
#include "cli/terminal/document.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/content_hash.h"
#include "launcher/staging/trees_file.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/model/decision.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// A job's outputs are counted up to here.
constexpr std::int64_t most_files = 1'000'000;

// Of what lies in each tree, not of where it lies, by place: `code`, `inputs/data`. Nothing where
// the job was cleaned away.
std::map<std::string, std::string> tree_hashes(const Home& home, const JobId& job) {
  std::map<std::string, std::string> out;
  const auto trees = load_trees(home.trees(job));
  if (!trees) return out;
  for (const Tree& tree : *trees) {
    Json entries;
    write_json(entries, tree.entries);
    out[tree.place] = content_hash_of(entries.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return out;
}

void put(Document& map, const char* key, const std::string& text) {
  if (!text.empty()) map[key] = text;
}

// What the spec says of it, without what it does not say.
Document said(const Document& value) {
  Document out = Document::object();
  for (const auto& [key, each] : value.items()) {
    const bool is_empty = each.is_null() || each == "" || (each.is_structured() && each.empty());
    if (!is_empty) out[key] = each;
  }
  return out;
}

// Files and bytes of a folder that the job left on this machine.
void count_files(const fs::path& folder, Document& out) {
  std::error_code failure;
  std::int64_t files = 0;
  std::uintmax_t bytes = 0;
  for (fs::recursive_directory_iterator entry(folder, failure), end;
       !failure && entry != end && files < most_files; entry.increment(failure)) {
    std::error_code gone;
    if (!entry->is_regular_file(gone)) continue;
    const std::uintmax_t size = entry->file_size(gone);
    if (gone) continue;
    ++files;
    bytes += size;
  }
  if (failure) return;
  out["files"] = files;
  out["bytes"] = bytes;
}

// Of each attempt: the checkpoint that it was started from.
Document checkpoints_document(const std::vector<Record>& records) {
  Document out = Document::array();
  for (const Record& record : records) {
    const auto* begun = record_as<LaunchBegun>(record);
    if (begun == nullptr || !begun->resume_from) continue;
    Document each{{"attempt", begun->attempt.value}, {"directory", begun->resume_from->directory}};
    each["step"] = value_or_null(begun->resume_from->known_step());
    put(each, "kind", begun->resume_from->kind);
    out.push_back(std::move(each));
  }
  return out;
}

struct Lineage {
  Document document;  // what it was made of
  Document spec;      // all that the job file meant
};

Lineage lineage_of(const std::string& typed) {
  const Home home = Home::from_environment();
  const FoundJob found = job_or_end(home, typed);
  const JobHistory history = or_end(history_of(found));
  const JobSubmitted* submitted = submission_in(history.records);
  if (submitted == nullptr) throw VerbEnd(internal_error, "job " + found.row.name + " has no spec");
  Document spec = spec_document(submitted->spec);
  const auto trees = tree_hashes(home, found.id());
  Document out{{"job", found.row.name}};
  const std::string file = text_of_file(home.job(found.id()) / "spec.yml");
  if (!file.empty()) out["job_file"] = content_hash_of(file);
  Document& code = out["code"] = Document::object();
  put(code, "directory", submitted->spec.code);
  const auto& recorded = submitted->spec.recorded;
  if (recorded.contains("code.commit")) code["commit"] = recorded.at("code.commit");
  if (trees.contains("code")) code["tree"] = trees.at("code");
  put(code, "git", spec["git_url"].get<std::string>());
  out["environment"] = said(spec["environment"]);
  out["inputs"] = Document::object();
  for (const auto& [name, input] : spec["inputs"].items()) {
    Document& one = out["inputs"][name] = said(input);
    if (trees.contains("inputs/" + name)) one["tree"] = trees.at("inputs/" + name);
  }
  put(out, "resume_from", submitted->spec.muster.resume_path);
  out["checkpoints"] = checkpoints_document(history.records);
  out["outputs"] = Document::object();
  for (const auto& [name, output] : spec["outputs"].items()) {
    out["outputs"][name] = said(output);
    count_files(home.outputs(found.id()) / name, out["outputs"][name]);
  }
  return {std::move(out), std::move(spec)};
}

std::string cell(const Document& value) {
  return value.is_string() ? value.get<std::string>() : document_line(value);
}

// "inputs.data.path" and its value, of each value in it.
std::map<std::string, Document> leaves(const Document& document) {
  std::map<std::string, Document> out;
  const Document flat = document.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    if (!value.is_null()) out[replaced(pointer.substr(1), "/", ".")] = value;
  }
  return out;
}

int show_lineage(const std::string& typed, const CommonOptions& common) {
  const Lineage lineage = lineage_of(typed);
  if (!wants_table(common)) return print_document(lineage.document, common);
  Table table({"WHAT", "IS"});
  for (const auto& [key, value] : leaves(lineage.document)) table.add({key, cell(value)});
  write_all(Stream::out, table.text(common));
  return 0;
}

// What its name is, and what it left, is no difference of what it was made of.
std::map<std::string, Document> compared(const Lineage& lineage) {
  Document all = lineage.document;
  all.erase("job");
  all.erase("checkpoints");
  for (const auto& [key, value] : lineage.spec.items()) {
    if (key != "name" && key != "display_name" && !all.contains(key)) all[key] = value;
  }
  all.erase("outputs");
  all["recorded"].erase("code.commit");
  return leaves(all);
}

struct DiffOptions {
  std::string one;
  std::string other;
};

int show_differences(const DiffOptions& options, const CommonOptions& common) {
  std::map<std::string, std::pair<Document, Document>> rows;
  for (const auto& [key, value] : compared(lineage_of(options.one))) rows[key].first = value;
  for (const auto& [key, value] : compared(lineage_of(options.other))) rows[key].second = value;
  std::erase_if(rows, [](const auto& row) { return row.second.first == row.second.second; });
  Document documents = Document::array();
  Table table({"WHAT", options.one, options.other});
  for (const auto& [key, values] : rows) {
    documents.push_back({{"what", key}, {"one", values.first}, {"other", values.second}});
    const auto text = [](const Document& value) { return value.is_null() ? "" : cell(value); };
    table.add({key, text(values.first), text(values.second)});
  }
  if (!wants_table(common)) return print_document(documents, common);
  if (rows.empty()) notice("no difference", common);
  if (!rows.empty()) write_all(Stream::out, table.text(common));
  return 0;
}

}  // namespace

void add_lineage(CommandLine& line) {
  line.verb<std::string>({"lineage", "Show what a job was made of: code, data, image, checkpoint"},
                         show_lineage, [](Arguments& of, std::string& job) {
                           of.argument("JOB", job, "Job name, or the beginning of one");
                         });
}

void add_diff(CommandLine& line) {
  line.verb<DiffOptions>({"diff", "Show in what two jobs differ"}, show_differences,
                         [](Arguments& of, DiffOptions& options) {
                           of.argument("JOB", options.one, "Job name, or the beginning of one");
                           of.argument("OTHER", options.other, "The other job");
                         });
}

}  // namespace muster
