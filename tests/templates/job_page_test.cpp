// docs/job-file.md against the program's own tables: its rows are the settings and keys that are
// understood, its defaults and values are true. MUSTER_UPDATE_GOLDEN=1 puts the rows of settings in
// the table's order, adds those that are missing and drops those that are gone; words are written
// by hand.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "launcher/wire/record_codec.h"
#include "scheduler/text/text.h"
#include "templates/job/job_file.h"
#include "templates/settings/setting_table.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::string page_path = std::string(MUSTER_SOURCE_DIR) + "/docs/job-file.md";

struct PageRow {
  std::string line;
  std::vector<std::string> cells;
};

std::vector<std::string> between_backticks(const std::string& text) {
  static const std::regex word("`([^`]+)`");
  std::vector<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at) {
    out.push_back((*at)[1]);
  }
  return out;
}

PageRow row_of(const std::string& line) {
  PageRow row{line, {}};
  std::istringstream text(line);
  std::string cell;
  std::getline(text, cell, '|');
  while (std::getline(text, cell, '|')) row.cells.push_back(std::string(trimmed(cell)));
  return row;
}

// The rows of the table behind `<!-- name`, without its heading.
std::vector<PageRow> rows_of(const std::string& name) {
  std::istringstream page(content_of(page_path));
  std::vector<PageRow> rows;
  std::string line;
  while (std::getline(page, line) && !line.starts_with("<!-- " + name)) continue;
  for (int i = 0; i < 2; ++i) std::getline(page, line);
  while (std::getline(page, line) && !line.starts_with("<!--")) rows.push_back(row_of(line));
  return rows;
}

std::string setting_of(const PageRow& row) {
  return row.line.size() > 3 ? row.line.substr(3, row.line.find('`', 3) - 3) : "";
}

void rewrite_settings() {
  std::map<std::string, std::string> lines;
  for (const PageRow& row : rows_of("settings")) lines[setting_of(row)] = row.line;
  std::string text = content_of(page_path);
  const std::size_t rule = text.find("|---|---|---|---|\n", text.find("<!-- settings"));
  const std::size_t begin = text.find('\n', rule) + 1;
  std::string table;
  for (const Setting& setting : setting_table()) {
    const auto known = lines.find(setting.path);
    table += known == lines.end() ? "| `" + setting.path + "` | | | |" : known->second;
    table += '\n';
  }
  std::ofstream(page_path) << text.replace(begin, text.find("<!-- end", begin) - begin, table);
}

JobSpec usual_spec() {
  JobSpec spec;
  spec.distribution.type = DistributionType::pytorch;
  return spec;
}

struct Taken {
  JobSpec spec = usual_spec();
  std::string errors;
};

Taken take(const Setting& setting, const std::string& text) {
  Taken taken;
  FindingList findings;
  const YamlNode node = scalar_node(text, Place{}, false);
  setting.read(Value(node, setting.path, findings), taken.spec);
  taken.errors = printed(findings.take_sorted());
  return taken;
}

bool runs(const JobSpec& spec) {
  JobFile job;
  job.kind = FileKind::command;
  job.spec = spec;
  return cannot_run_yet(job).empty();
}

// Any value that the row allows.
std::string example_of(const PageRow& row) {
  const std::string& values = row.cells.at(2);
  const std::vector<std::string> words = between_backticks(values);
  if (!words.empty()) return words.back();
  if (values.find(" to ") != std::string::npos) return values.substr(0, values.find(' '));
  if (values.find("duration") != std::string::npos) return "1m";
  if (values.find("path") != std::string::npos) return "/ckpt";
  return values.find("checks") != std::string::npos ? "gpu.count" : "x";
}

void check_range(const Setting& setting, const std::string& values) {
  static const std::regex range("(-?[0-9]+) to ([0-9]+)");
  std::smatch found;
  if (!std::regex_search(values, found, range)) return;
  const int low = std::stoi(found[1]), high = std::stoi(found[2]);
  CHECK(take(setting, std::to_string(low)).errors == "");
  CHECK(take(setting, std::to_string(high)).errors == "");
  CHECK(take(setting, std::to_string(low - 1)).errors != "");
  CHECK(take(setting, std::to_string(high + 1)).errors != "");
}

TEST_CASE("the page of the job file has every setting, in the order of the table") {
  if (std::getenv("MUSTER_UPDATE_GOLDEN") != nullptr) rewrite_settings();
  std::vector<std::string> on_page, in_table;
  for (const PageRow& row : rows_of("settings")) on_page.push_back(setting_of(row));
  for (const Setting& setting : setting_table()) in_table.push_back(setting.path);
  CHECK(on_page == in_table);
}

TEST_CASE("defaults and values on the page of the job file are those of the program") {
  const std::vector<PageRow> rows = rows_of("settings");
  REQUIRE(rows.size() == setting_table().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Setting& setting = setting_table()[i];
    CAPTURE(setting.path);
    REQUIRE(rows[i].cells.size() == 4);
    CHECK(rows[i].cells[1] != "");
    CHECK(rows[i].cells[2] != "");
    for (const std::string& text : between_backticks(rows[i].cells[1])) {
      const Taken usual = take(setting, text);
      CHECK(usual.errors == "");
      CHECK(encode_spec(usual.spec) == encode_spec(usual_spec()));
    }
    for (const std::string& text : between_backticks(rows[i].cells[2])) {
      CHECK(take(setting, text).errors == "");
    }
    check_range(setting, rows[i].cells[2]);
    if (setting.shape == SettingShape::structure) continue;
    const Taken example = take(setting, example_of(rows[i]));
    CHECK(example.errors == "");
    CHECK(runs(example.spec) == (rows[i].cells[3] != "Not implemented"));
  }
}

// `a.b` of the page as a job file with that key alone.
std::string file_with(const std::string& key) {
  std::string text = "distribution: {type: pytorch}\n";
  if (key.starts_with("distribution")) text = "";
  std::istringstream parts(key);
  std::string part, indent;
  while (std::getline(parts, part, '.')) {
    text += indent + (part == "<name>" ? "x" : part) + ":\n";
    indent += "  ";
  }
  text.back() = ' ';
  return text + "x\n";
}

TEST_CASE("every key on the page of the job file is understood") {
  int keys = 0;
  for (const PageRow& row : rows_of("keys")) {
    for (const std::string& key : between_backticks(row.cells.at(0))) {
      ++keys;
      CAPTURE(key);
      const std::string said = printed(read_job("command: x\n" + file_with(key)).findings);
      CHECK_THAT(said, !ContainsSubstring("unknown key"));
    }
  }
  CHECK(keys > 30);
}

TEST_CASE("every key that the readers of a job take is on its page") {
  static const std::regex taken("(?:take|require)\\(\"([a-z_$]+)\"\\)");
  std::set<std::string> on_page;
  for (const PageRow& row : rows_of("keys")) {
    for (const std::string& key : between_backticks(row.line)) {
      std::istringstream parts(key);
      for (std::string part; std::getline(parts, part, '.');) on_page.insert(part);
    }
  }
  const std::string folder = std::string(MUSTER_SOURCE_DIR) + "/templates/job";
  int keys = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string source = content_of(entry.path());
    for (std::sregex_iterator at(source.begin(), source.end(), taken), end; at != end; ++at) {
      ++keys;
      CAPTURE(entry.path(), (*at)[1]);
      CHECK(on_page.count((*at)[1]) == 1);
    }
  }
  CHECK(keys > 60);
}

}  // namespace
}  // namespace muster
