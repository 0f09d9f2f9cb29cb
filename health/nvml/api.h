// The part of the driver's management library that is asked: its structs and codes, written
// down here because the toolkit has no header of it. Layouts are those of x86-64 and never
// change; a struct that grew has a version word, `size | version << 24`, and the library refuses
// one that it does not know (code 25). Nothing outside health/nvml sees these types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

using NvmlReturn = int;
using NvmlDevice = void*;
using NvmlEventSet = void*;

inline constexpr NvmlReturn nvml_success = 0;
inline constexpr NvmlReturn nvml_invalid_argument = 2;
inline constexpr NvmlReturn nvml_insufficient_size = 7;
inline constexpr NvmlReturn nvml_timeout = 10;
inline constexpr NvmlReturn nvml_library_not_found = 12;
inline constexpr NvmlReturn nvml_function_not_found = 13;
inline constexpr NvmlReturn nvml_gpu_is_lost = 15;
inline constexpr NvmlReturn nvml_version_mismatch = 25;

// A wild count must not keep who asks for ever.
inline constexpr unsigned nvml_gpus_max = 64;
inline constexpr unsigned nvml_sensor_gpu = 0;  // of its temperatures

constexpr unsigned nvml_version_word(std::size_t size, unsigned version) {
  return static_cast<unsigned>(size) | version << 24;
}

struct NvmlPciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(NvmlPciInfo) == 68);

struct NvmlMemory {
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;
};
static_assert(sizeof(NvmlMemory) == 24);

struct NvmlMemoryV2 {
  unsigned version;
  std::uint64_t total;
  std::uint64_t reserved;
  std::uint64_t free;
  std::uint64_t used;
};
inline constexpr unsigned nvml_memory_v2 = nvml_version_word(sizeof(NvmlMemoryV2), 2);
static_assert(nvml_memory_v2 == 0x02000028);

struct NvmlProcessInfoV1 {
  unsigned pid;
  std::uint64_t used_memory;
};
static_assert(sizeof(NvmlProcessInfoV1) == 16);

struct NvmlProcessInfo {  // of the functions _v2 and _v3
  unsigned pid;
  std::uint64_t used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(NvmlProcessInfo) == 24);

union NvmlValue {
  double real;
  int int32;
  unsigned uint32;
  std::uint64_t uint64;
  std::int64_t int64;
  unsigned short uint16;
};
enum NvmlValueType : int {
  nvml_type_double,
  nvml_type_uint32,
  nvml_type_ulong,
  nvml_type_uint64,
  nvml_type_int64,
  nvml_type_int32,
  nvml_type_uint16
};
struct NvmlFieldValue {
  unsigned field;
  unsigned scope;
  std::int64_t timestamp;
  std::int64_t latency_us;
  int type;
  NvmlReturn rc;  // of this field, whatever the call returned
  NvmlValue value;
};
static_assert(sizeof(NvmlFieldValue) == 40);

struct NvmlEventData {  // the function without _v2 leaves the instances alone
  NvmlDevice device;
  std::uint64_t type;
  std::uint64_t data;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(NvmlEventData) == 32);

struct NvmlSramErrors {
  unsigned version;
  std::uint64_t aggregate_parity;
  std::uint64_t aggregate_secded;
  std::uint64_t aggregate_corrected;
  std::uint64_t volatile_parity;
  std::uint64_t volatile_secded;
  std::uint64_t volatile_corrected;
  std::uint64_t buckets[5];
  unsigned threshold_exceeded;
};
inline constexpr unsigned nvml_sram_errors_v1 = nvml_version_word(sizeof(NvmlSramErrors), 1);
static_assert(nvml_sram_errors_v1 == 0x01000068);

struct NvmlRemapHistogram {  // banks by how many spare rows are left in them
  unsigned max;
  unsigned high;
  unsigned partial;
  unsigned low;
  unsigned none;
};
static_assert(sizeof(NvmlRemapHistogram) == 20);

struct NvmlRemappedRowsV2 {  // no version word
  unsigned corrected_active;
  unsigned corrected_inactive;
  unsigned uncorrected_active;
  unsigned uncorrected_inactive;
  unsigned pending;
  unsigned failure;
};
static_assert(sizeof(NvmlRemappedRowsV2) == 24);

struct NvmlFabricInfoV1 {
  unsigned char cluster[16];
  NvmlReturn status;
  unsigned clique;
  unsigned char state;
};
static_assert(sizeof(NvmlFabricInfoV1) == 28);

struct NvmlFabricInfoV3 {  // version 2 ends behind the mask
  unsigned version;
  unsigned char cluster[16];
  NvmlReturn status;
  unsigned clique;
  unsigned char state;
  unsigned health_mask;
  unsigned char health_summary;
};
static_assert(offsetof(NvmlFabricInfoV3, health_summary) == 36);
inline constexpr unsigned nvml_fabric_info_v2 = nvml_version_word(36, 2);
inline constexpr unsigned nvml_fabric_info_v3 = nvml_version_word(sizeof(NvmlFabricInfoV3), 3);
static_assert(nvml_fabric_info_v2 == 0x02000024 && nvml_fabric_info_v3 == 0x03000028);

struct NvmlTemperature {
  unsigned version;
  unsigned sensor;
  int celsius;
};
inline constexpr unsigned nvml_temperature_v1 = nvml_version_word(sizeof(NvmlTemperature), 1);
static_assert(nvml_temperature_v1 == 0x0100000c);

struct NvmlMarginTemperature {
  unsigned version;
  int celsius;
};
inline constexpr unsigned nvml_margin_v1 = nvml_version_word(sizeof(NvmlMarginTemperature), 1);
static_assert(nvml_margin_v1 == 0x01000008);

struct NvmlRepairStatus {
  unsigned version;
  unsigned channel_pending;
  unsigned tpc_pending;
};
inline constexpr unsigned nvml_repair_v1 = nvml_version_word(sizeof(NvmlRepairStatus), 1);
static_assert(nvml_repair_v1 == 0x0100000c);

struct NvmlUnrepairableMemory {  // no version word
  unsigned is_unrepairable;
};
static_assert(sizeof(NvmlUnrepairableMemory) == 4);

struct NvmlLinkFirmware {
  std::uint8_t kind;
  unsigned major;
  unsigned minor;
  unsigned sub_minor;
};
struct NvmlLinkInfoV2 {  // version 1 ends behind is_encrypted
  unsigned version;
  unsigned is_encrypted;
  NvmlLinkFirmware firmware[100];
  unsigned firmwares;
};
inline constexpr unsigned nvml_link_info_v1 = nvml_version_word(8, 1);
inline constexpr unsigned nvml_link_info_v2 = nvml_version_word(sizeof(NvmlLinkInfoV2), 2);
static_assert(nvml_link_info_v2 == 0x0200064c);

}  // namespace muster
