#include "runtime/checkpoint/resume_log.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/durable_file.h"
#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {
namespace {

using namespace fields;

constexpr std::uint64_t log_limit_bytes = 64ull << 20;
constexpr std::uint64_t cert_limit_bytes = 1ull << 20;

GenerationLine generation_of(const Json& json) {
  GenerationLine line;
  line.generation = whole_number(json, "gen");
  line.fork_step = whole_number(json, "fork_step");
  line.from = text(json, "from");
  line.reason = text(json, "reason");
  line.world = whole_number(json, "world");
  if (json.contains("run_id")) line.run_id = text(json, "run_id");
  if (json.contains("epoch") && !json["epoch"].is_null()) line.epoch = whole_number(json, "epoch");
  for (const Json& node : list(json, "nodes")) {
    if (node.is_string()) line.nodes.push_back(node.get<std::string>());
  }
  return line;
}

void read_line(std::string_view line, ResumeLog& log) {
  if (!is_sealed_json(line)) {
    ++log.damaged_lines;
    return;
  }
  try {
    const Json json = Json::parse(line);
    if (json.contains("quarantine")) {
      log.quarantined.insert(text(json, "quarantine"));
    } else {
      log.generations.push_back(generation_of(json));
    }
  } catch (const std::exception&) {  // FieldError or a JSON error: the line says nothing
    ++log.damaged_lines;
  }
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
  return seal_json(json.dump());
}

std::string format_quarantine_line(const QuarantineLine& line) {
  const Json json = {
      {"quarantine", line.checkpoint}, {"reason", line.reason}, {"set_by_gen", line.generation}};
  return seal_json(json.dump());
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

Checked<NoValue> quarantine_checkpoint(const std::string& root, const QuarantineLine& line,
                                       const std::string& evidence) {
  auto logged = append_line_durably(root, checkpoint_log_name, format_quarantine_line(line));
  if (!logged) return logged.fault();
  const Json cert = {
      {"format", "muster-cert"}, {"version", 1},          {"ckpt", line.checkpoint},
      {"state", "QUARANTINED"},  {"reason", line.reason}, {"suspect_from", nullptr},
      {"evidence", {evidence}},  {"at_step", nullptr},    {"set_by_gen", line.generation}};
  return replace_durably(root + "/" + line.checkpoint, checkpoint_cert_name,
                         seal_json(cert.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

bool is_certified_bad(const std::string& path) {
  const auto content = read_checkpoint_text(path + "/" + checkpoint_cert_name, cert_limit_bytes);
  if (!content || !is_sealed_json(content.value())) return false;
  const Json json = Json::parse(content.value(), nullptr, false);
  return json.is_object() && json.value("state", Json()) == "QUARANTINED";
}

}  // namespace muster
