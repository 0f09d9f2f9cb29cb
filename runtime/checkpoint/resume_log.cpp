#include "runtime/checkpoint/resume_log.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {
namespace {

using namespace fields;

constexpr std::uint64_t log_limit_bytes = 64ull << 20;
constexpr std::uint64_t certificate_limit_bytes = 1ull << 20;
constexpr const char* quarantined_word = "QUARANTINED";
constexpr std::array<const char*, 3> grade_words{"COMMITTED", "SANE", "CERTIFIED"};

struct Place {
  std::string root;
  std::string name;
};
Place place_of(const std::string& path) {
  const std::filesystem::path directory = normal_path(path);
  return {directory.parent_path().string(), directory.filename().string()};
}

// Texts of people may hold anything, and become UTF-8.
std::string sealed(const Json& json) {
  return seal_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json number_or_null(const std::optional<std::uint64_t>& number) {
  return number ? Json(*number) : Json(nullptr);
}

std::optional<std::uint64_t> optional_number(const Json& json, const char* key) {
  if (member(json, key).is_null()) return std::nullopt;
  return whole_number(json, key);
}

CheckpointStanding standing_of(const Json& json) {
  const std::string state = text(json, "state");
  if (state == quarantined_word) {
    return CheckpointQuarantine{text(json, "reason"), optional_number(json, "suspect_from")};
  }
  for (std::size_t i = 0; i < grade_words.size(); ++i) {
    if (state == grade_words[i]) return static_cast<CheckpointGrade>(i);
  }
  throw FieldError("state: unknown");
}

Certificate certificate_of(const Json& json) {
  if (text(json, "format") != "muster-cert") throw FieldError("format: expected muster-cert");
  if (whole_number(json, "version") != 1) throw FieldError("version: this reader knows only 1");
  Certificate certificate;
  certificate.checkpoint = text(json, "ckpt");
  certificate.standing = standing_of(json);
  certificate.at_step = optional_number(json, "at_step");
  certificate.generation = whole_number(json, "set_by_gen");
  for (const Json& sentence : list(json, "evidence")) {
    if (!sentence.is_string()) throw FieldError("evidence: expected texts");
    certificate.evidence.push_back(sentence.get<std::string>());
  }
  return certificate;
}

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
  return {json.value("reason", "unknown"), number_if_given(json, "suspect_from")};
}

void read_line(std::string_view line, ResumeLog& log) {
  try {
    require(is_committed_json(line), "damaged");
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

// Why the state itself forbids any grade; empty: it does not.
std::string insanity(const Manifest& manifest) {
  for (const ShardRecord& shard : manifest.shards) {
    for (std::size_t plane = 0; plane < flat_planes; ++plane) {
      const std::uint64_t bad = shard.vitals[plane].nonfinite;
      if (bad == 0) continue;
      return shard.file + ": " + std::to_string(bad) + " values of " + flat_plane_names[plane] +
             " are not finite";
    }
  }
  return manifest.replica.agree ? "" : "the weights of the ranks differed when it was taken";
}

Checked<NoValue> grade(const std::string& path, CheckpointGrade wanted,
                       const GradingEvidence& evidence) {
  const Place place = place_of(path);
  if (auto newest = check_newest_generation(place.root, evidence.generation); !newest) {
    return newest.fault();
  }
  const auto manifest = read_manifest(path);
  if (!manifest) return CheckpointFault{path + ": " + manifest.reason()};
  if (const std::string why = insanity(manifest.value()); !why.empty()) {
    return CheckpointFault{path + ": is not sane: " + why};
  }
  if (wanted == CheckpointGrade::certified && evidence.at_step <= manifest.value().step) {
    return CheckpointFault{path + ": nothing was trained after it yet"};
  }
  const CheckpointStanding known = standing_of_checkpoint(path);
  if (const auto* bad = std::get_if<CheckpointQuarantine>(&known)) {
    return CheckpointFault{path + ": is quarantined: " + bad->reason};
  }
  if (std::get<CheckpointGrade>(known) >= wanted) return NoValue{};
  return write_certificate(
      path, {place.name, wanted, evidence.sentences, evidence.at_step, evidence.generation});
}

}  // namespace

const char* standing_word(const CheckpointStanding& standing) {
  const auto* grade = std::get_if<CheckpointGrade>(&standing);
  return grade != nullptr ? grade_words[static_cast<std::size_t>(*grade)] : quarantined_word;
}

std::string format_certificate(const Certificate& certificate) {
  const auto* bad = std::get_if<CheckpointQuarantine>(&certificate.standing);
  const Json json = {{"format", "muster-cert"},
                     {"version", 1},
                     {"ckpt", certificate.checkpoint},
                     {"state", standing_word(certificate.standing)},
                     {"reason", bad != nullptr ? Json(bad->reason) : Json(nullptr)},
                     {"suspect_from", bad != nullptr ? number_or_null(bad->suspect_from) : Json()},
                     {"evidence", certificate.evidence},
                     {"at_step", number_or_null(certificate.at_step)},
                     {"set_by_gen", certificate.generation}};
  return sealed(json);
}

Checked<Certificate> parse_certificate(std::string_view text) {
  if (!is_committed_json(text)) {
    return CheckpointFault{"the certificate is torn or its checksum is wrong"};
  }
  try {
    return certificate_of(parse_json(text));
  } catch (const FieldError& error) {
    return CheckpointFault{error.what()};
  } catch (const Json::exception& error) {
    return CheckpointFault{std::string("not valid JSON: ") + error.what()};
  }
}

Checked<Certificate> read_certificate(const std::string& path) {
  const std::string name = place_of(path).name;
  const std::string file = path + "/" + checkpoint_cert_name;
  if (!may_exist(file)) return Certificate{name};
  const auto content = read_checkpoint_text(file, certificate_limit_bytes);
  if (!content) return content.fault();
  auto certificate = parse_certificate(content.value());
  if (!certificate) return CheckpointFault{file + ": " + certificate.reason()};
  if (certificate.value().checkpoint != name) {
    return CheckpointFault{file + ": belongs to " + certificate.value().checkpoint};
  }
  return certificate;
}

Checked<NoValue> write_certificate(const std::string& path, const Certificate& certificate) {
  return replace_durably(path, checkpoint_cert_name, format_certificate(certificate));
}

std::string format_generation_line(const GenerationLine& line) {
  Json json = {{"gen", line.generation},   {"fork_step", line.fork_step},
               {"from", line.from},        {"tier", "T3"},
               {"class", nullptr},         {"reason", line.reason},
               {"first_failure", nullptr}, {"lost_steps", nullptr},
               {"world", line.world},      {"nodes", line.nodes},
               {"excluded", Json::array()}};
  json["run_id"] = line.run_id;
  json["epoch"] = number_or_null(line.epoch);
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
  if (may_exist(root + "/" + checkpoint_log_name)) log.unreadable = text.reason();
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
  return write_certificate(root + "/" + line.checkpoint,
                           {line.checkpoint,
                            CheckpointQuarantine{line.reason, line.suspect_from},
                            {evidence},
                            std::nullopt,
                            line.generation});
}

CheckpointStanding standing_in(const ResumeLog& log, const std::string& path) {
  const auto logged = log.quarantined.find(place_of(path).name);
  if (logged != log.quarantined.end()) return logged->second;
  const auto certificate = read_certificate(path);
  return certificate ? certificate.value().standing : CheckpointGrade::committed;
}

bool is_certified_bad(const std::string& path) {
  const auto certificate = read_certificate(path);
  return certificate && std::holds_alternative<CheckpointQuarantine>(certificate.value().standing);
}

Checked<NoValue> mark_sane(const std::string& path, const GradingEvidence& evidence) {
  return grade(path, CheckpointGrade::sane, evidence);
}

Checked<NoValue> certify(const std::string& path, const GradingEvidence& evidence) {
  return grade(path, CheckpointGrade::certified, evidence);
}

CheckpointStanding standing_of_checkpoint(const std::string& path) {
  return standing_in(read_resume_log(place_of(path).root), path);
}

Checked<NoValue> release_checkpoint(const std::string& path, const std::string& reason) {
  const Place place = place_of(path);
  if (!std::holds_alternative<CheckpointQuarantine>(standing_of_checkpoint(path))) {
    return CheckpointFault{path + ": is not quarantined"};
  }
  const std::string line = format_release_line(place.name, reason);
  auto logged = append_line_durably(place.root, checkpoint_log_name, line);
  if (!logged) return logged.fault();
  return write_certificate(path, {place.name, CheckpointGrade::committed, {"released: " + reason}});
}

Checked<NoValue> pin_checkpoint(const std::string& path, const std::string& reason) {
  const Json pin = {{"format", "muster-pin"}, {"version", 1}, {"reason", reason}};
  return replace_durably(path, checkpoint_pin_name, sealed(pin));
}

Checked<NoValue> unpin_checkpoint(const std::string& path) {
  const std::string pin = path + "/" + checkpoint_pin_name;
  if (::unlink(pin.c_str()) != 0) {
    if (errno == ENOENT) return CheckpointFault{path + ": is not pinned"};
    return CheckpointFault{pin + ": cannot be removed: " + std::strerror(errno)};
  }
  return sync_checkpoint_directory(path);
}

bool is_pinned(const std::string& path) {
  return may_exist(path + "/" + checkpoint_pin_name);
}

std::string pin_reason(const std::string& path) {
  const auto text = read_checkpoint_text(path + "/" + checkpoint_pin_name, certificate_limit_bytes);
  if (!text || !is_committed_json(text.value()) || nests_too_deeply(text.value())) return "";
  const auto pin = Json::parse(text.value(), nullptr, false);
  const auto reason = pin.is_object() ? pin.find("reason") : pin.end();
  return reason != pin.end() && reason->is_string() ? reason->get<std::string>() : "";
}

}  // namespace muster
