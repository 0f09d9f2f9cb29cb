#include "runtime/checkpoint/resume_log.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {
namespace {

using namespace fields;

constexpr std::uint64_t log_limit_bytes = 64ull << 20;

std::optional<std::uint64_t> number_if_given(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return whole_number(json, key);
}

GenerationLine generation_of(const Json& json) {
  GenerationLine line;
  line.generation = whole_number(json, "gen");
  line.fork_step = whole_number(json, "fork_step");
  line.from = text(json, "from");
  line.reason = text(json, "reason");
  line.world = whole_number(json, "world");
  if (json.contains("run_id")) line.run_id = text(json, "run_id");
  line.epoch = number_if_given(json, "epoch");
  line.members_epoch = number_if_given(json, "members_epoch");
  for (const Json& node : list(json, "nodes")) {
    if (node.is_string()) line.nodes.push_back(node.get<std::string>());
  }
  return line;
}

CheckpointQuarantine quarantine_of(const Json& json) {
  CheckpointQuarantine quarantine{json.value("reason", "unknown")};
  quarantine.suspect_from = number_if_given(json, "suspect_from");
  return quarantine;
}

void read_line(std::string_view line, ResumeLog& log) {
  if (!is_committed_json(line)) {
    ++log.damaged_lines;
    return;
  }
  try {
    const Json json = parse_json(line);
    if (json.contains("quarantine")) {
      log.quarantined[text(json, "quarantine")] = quarantine_of(json);
    } else if (json.contains("release")) {
      log.quarantined.erase(text(json, "release"));
    } else {
      log.generations.push_back(generation_of(json));
    }
  } catch (const std::exception&) {  // FieldError or a JSON error: the line says nothing
    ++log.damaged_lines;
  }
}

// Texts of people may hold anything, and become UTF-8.
std::string sealed(const Json& json) {
  return seal_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string format_generation_line(const GenerationLine& line) {
  Json json = {{"gen", line.generation},   {"fork_step", line.fork_step},
               {"from", line.from},        {"tier", "T3"},
               {"class", nullptr},         {"reason", line.reason},
               {"first_failure", nullptr}, {"lost_steps", nullptr},
               {"world", line.world},      {"nodes", line.nodes},
               {"excluded", Json::array()}};
  json["run_id"] = line.run_id;
  json["epoch"] = line.epoch ? Json(*line.epoch) : Json(nullptr);
  if (line.members_epoch) json["members_epoch"] = *line.members_epoch;
  return seal_json(json.dump());
}

std::string format_quarantine_line(const QuarantineLine& line) {
  Json json = {
      {"quarantine", line.checkpoint}, {"reason", line.reason}, {"set_by_gen", line.generation}};
  if (line.suspect_from) json["suspect_from"] = *line.suspect_from;
  return sealed(json);
}

std::string format_release_line(const std::string& checkpoint, const std::string& reason) {
  return sealed({{"release", checkpoint}, {"reason", reason}});
}

ResumeLog parse_resume_log(std::string_view text) {
  ResumeLog log;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
    if (length > 1) read_line(text.substr(0, length), log);
    text.remove_prefix(length);
  }
  return log;
}

ResumeLog read_resume_log(const std::string& root) {
  const auto text = read_checkpoint_text(root + "/" + checkpoint_log_name, log_limit_bytes);
  if (text) return parse_resume_log(text.value());
  ResumeLog log;
  std::error_code code;
  if (std::filesystem::exists(root + "/" + checkpoint_log_name, code) || code) {
    log.unreadable = text.reason();
  }
  return log;
}

Checked<NoValue> check_newest_generation(const std::string& root, std::uint64_t generation) {
  const ResumeLog log = read_resume_log(root);
  if (!log.unreadable.empty()) return CheckpointFault{log.unreadable};
  for (const GenerationLine& line : log.generations) {
    if (line.generation <= generation) continue;
    return CheckpointFault{root + ": generation " + std::to_string(line.generation) +
                           std::string(taken_over_words) + std::to_string(generation) +
                           ", in run " + line.run_id};
  }
  return NoValue{};
}

Checked<NoValue> quarantine_checkpoint(const std::string& root, const QuarantineLine& line,
                                       const std::string& evidence) {
  auto logged = append_line_durably(root, checkpoint_log_name, format_quarantine_line(line));
  if (!logged) return logged.fault();
  Certificate certificate;
  certificate.checkpoint = line.checkpoint;
  certificate.standing = CheckpointQuarantine{line.reason, line.suspect_from};
  certificate.evidence = {evidence};
  certificate.generation = line.generation;
  return write_certificate(root + "/" + line.checkpoint, certificate);
}

CheckpointStanding standing_in(const ResumeLog& log, const std::string& path) {
  const std::filesystem::path directory = normal_path(path);
  const auto logged = log.quarantined.find(directory.filename().string());
  if (logged != log.quarantined.end()) return logged->second;
  const auto certificate = read_certificate(path);
  return certificate ? certificate.value().standing : CheckpointGrade::committed;
}

bool is_certified_bad(const std::string& path) {
  const auto certificate = read_certificate(path);
  return certificate && std::holds_alternative<CheckpointQuarantine>(certificate.value().standing);
}

}  // namespace muster
