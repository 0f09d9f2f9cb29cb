#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "health/nvml/reader.h"

namespace muster {

namespace {

constexpr unsigned links_max = 18;  // of the library; later GPUs have more, told as fields alone

// What the catalogue names, each without a scope.
constexpr std::array<unsigned, 41> gpu_fields{1,   2,   3,   4,   5,   6,   29,  30,  31,  38,  45,
                                              52,  59,  82,  90,  91,  94,  95,  142, 143, 144, 145,
                                              169, 170, 171, 173, 179, 180, 185, 186, 193, 194, 195,
                                              196, 230, 269, 270, 271, 301, 302, 165};
// Scope: the link. 208 to 222 and 295 from the fifth generation on.
constexpr std::array<unsigned, 9> link_fields{161, 162, 163, 164, 208, 214, 215, 220, 222};
constexpr unsigned link_field_plr = 295;
constexpr unsigned field_link_count = 91;

std::string value_text(const NvmlFieldValue& field) {
  switch (field.type) {
    case nvml_type_double:
      return std::to_string(field.value.real);
    case nvml_type_uint32:
      return std::to_string(field.value.uint32);
    case nvml_type_int32:
      return std::to_string(field.value.int32);
    case nvml_type_int64:
      return std::to_string(field.value.int64);
    case nvml_type_uint16:
      return std::to_string(field.value.uint16);
    default:
      return std::to_string(field.value.uint64);
  }
}

void ask_all(const NvmlGpu& gpu, std::vector<NvmlFieldValue>& fields, bool is_scoped) {
  const NvmlReturn called =
      gpu.call("nvmlDeviceGetFieldValues", static_cast<int>(fields.size()), fields.data());
  for (const NvmlFieldValue& field : fields) {
    const std::string scope = is_scoped ? "." + std::to_string(field.scope) : "";
    const NvmlReturn rc = called == nvml_success ? field.rc : called;
    gpu.asker.tell("field." + std::to_string(field.field) + scope, rc, value_text(field));
  }
}

NvmlFieldValue question(unsigned field, unsigned scope) {
  NvmlFieldValue value{};
  value.field = field;
  value.scope = scope;
  return value;
}

unsigned link_count(const NvmlGpu& gpu) {
  NvmlFieldValue field = question(field_link_count, 0);
  const NvmlReturn rc = gpu.call("nvmlDeviceGetFieldValues", 1, &field);
  // Drivers that do not tell refuse a link that is none.
  if (rc != nvml_success || field.rc != nvml_success) return links_max;
  return std::min(field.value.uint32, links_max);
}

// Whether the GPU has such a link.
bool ask_link(const NvmlGpu& gpu, unsigned link) {
  constexpr const char* counters[] = {"replay", "recovery", "crc_flit", "crc_data"};
  const std::string key = "link." + std::to_string(link) + ".";
  unsigned state = 0;
  NvmlReturn rc = gpu.call("nvmlDeviceGetNvLinkState", link, &state);
  if (rc == nvml_invalid_argument) return false;
  gpu.asker.report_number(key + "state", rc, state);
  if (rc != nvml_success) return false;
  NvmlPciInfo remote{};
  rc = gpu.call({"nvmlDeviceGetNvLinkRemotePciInfo", "nvmlDeviceGetNvLinkRemotePciInfo_v2"}, link,
                &remote);
  remote.bus_id[sizeof remote.bus_id - 1] = '\0';
  gpu.asker.tell(key + "remote", rc, remote.bus_id);
  for (int counter = 0; counter < 4; ++counter) {
    gpu.ask_number<std::uint64_t>(key + counters[counter], "nvmlDeviceGetNvLinkErrorCounter", link,
                                  counter);
  }
  return true;
}

void ask_encryption(const NvmlGpu& gpu) {
  NvmlLinkInfoV2 info{};
  NvmlReturn rc = nvml_version_mismatch;
  for (const unsigned version : {nvml_link_info_v2, nvml_link_info_v1}) {
    if (rc != nvml_version_mismatch) break;
    info.version = version;
    rc = gpu.call("nvmlDeviceGetNvLinkInfo", &info);
  }
  gpu.asker.report_number("link.encrypted", rc, info.is_encrypted);
}

void ask_pcie(const NvmlGpu& gpu) {
  constexpr std::pair<const char*, const char*> questions[] = {
      {"pcie.gen", "nvmlDeviceGetCurrPcieLinkGeneration"},
      {"pcie.width", "nvmlDeviceGetCurrPcieLinkWidth"},
      {"pcie.max_gen", "nvmlDeviceGetMaxPcieLinkGeneration"},
      {"pcie.max_width", "nvmlDeviceGetMaxPcieLinkWidth"},
      {"pcie.gpu_max_gen", "nvmlDeviceGetGpuMaxPcieLinkGeneration"},
      {"pcie.replay", "nvmlDeviceGetPcieReplayCounter"},
      {"pcie.speed", "nvmlDeviceGetPcieSpeed"},
  };
  for (const auto& [key, name] : questions) gpu.ask_number(key, name);
}

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

struct FabricAnswer {
  NvmlReturn rc;
  unsigned version;
  NvmlFabricInfoV3 info;
};

FabricAnswer newest_fabric_info(const NvmlGpu& gpu) {
  FabricAnswer answer{nvml_version_mismatch, 0, {}};
  for (const unsigned version : {3u, 2u}) {
    if (answer.rc != nvml_version_mismatch) break;
    answer.version = version;
    answer.info.version = version == 3 ? nvml_fabric_info_v3 : nvml_fabric_info_v2;
    answer.rc = gpu.call("nvmlDeviceGetGpuFabricInfoV", &answer.info);
  }
  if (answer.rc != nvml_function_not_found && answer.rc != nvml_version_mismatch) return answer;
  NvmlFabricInfoV1 old{};
  answer.version = 1;
  answer.rc = gpu.call("nvmlDeviceGetGpuFabricInfo", &old);
  std::copy(std::begin(old.cluster), std::end(old.cluster), std::begin(answer.info.cluster));
  answer.info.status = old.status;
  answer.info.clique = old.clique;
  answer.info.state = old.state;
  return answer;
}

}  // namespace

void ask_fields(const NvmlGpu& gpu) {
  std::vector<NvmlFieldValue> fields;
  for (const unsigned field : gpu_fields) fields.push_back(question(field, 0));
  ask_all(gpu, fields, false);
}

void ask_links(const NvmlGpu& gpu) {
  ask_pcie(gpu);
  const unsigned count = link_count(gpu);
  std::vector<NvmlFieldValue> fields;
  for (unsigned link = 0; link < count && ask_link(gpu, link); ++link) {
    for (const unsigned field : link_fields) fields.push_back(question(field, link));
    fields.push_back(question(link_field_plr, link));
  }
  if (!fields.empty()) ask_all(gpu, fields, true);
  ask_encryption(gpu);
}

void ask_fabric(const NvmlGpu& gpu) {
  const FabricAnswer answer = newest_fabric_info(gpu);
  const NvmlFabricInfoV3& info = answer.info;
  gpu.asker.report_number("fabric.state", answer.rc, info.state);
  gpu.asker.report_number("fabric.status", answer.rc, info.status);
  gpu.asker.report_number("fabric.clique", answer.rc, info.clique);
  gpu.asker.tell("fabric.cluster", answer.rc, hexadecimal(info.cluster, sizeof info.cluster));
  // What an older struct does not hold is not told.
  if (answer.version >= 2) gpu.asker.report_number("fabric.mask", answer.rc, info.health_mask);
  if (answer.version >= 3)
    gpu.asker.report_number("fabric.summary", answer.rc, info.health_summary);
}

}  // namespace muster
