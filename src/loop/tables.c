// SPDX-License-Identifier: Apache-2.0
// The numbers of the tables, by tools/loop_fit.py.

#include "loop/tables.h"

// clang-format off
const float og_loop_tables[OG_LOOP_TABLES][OG_LOOP_TABLE_SIZE] = {
    [OG_LOOP_ERF + 0] = {
        0, 0x1.1855a6p-1f, 0x1.bbef10p-1f, 0x1.f39bc2p-1f,
        0x1.fea422p-1f, 0x1.ffe96ap-1f, 0x1.ffff24p-1f, 0x1.fffffcp-1f},
    [OG_LOOP_ERF + 1] = {
        0x1.06eba8p-3f, 0x1.b3ab06p-1f, 0x1.75a938p-2f, 0x1.6c7e44p-4f,
        0x1.94624ep-7f, 0x1.fe41cep-11f, 0x1.6e236ap-15f, 0x1.2ade3ap-20f},
    [OG_LOOP_ERF + 2] = {
        -0x1.80172ep-21f, -0x1.cee5a6p-2f, -0x1.8d0418p-2f, -0x1.227472p-3f,
        -0x1.adb3aep-6f, -0x1.5266b0p-9f, -0x1.2088a0p-13f, -0x1.63289ap-17f},
    [OG_LOOP_ERF + 3] = {
        -0x1.811c7cp-2f, -0x1.fa2472p-4f, 0x1.393900p-3f, 0x1.efce58p-4f,
        0x1.0eaa1ep-5f, 0x1.16b0dep-8f, 0x1.265810p-12f, 0x1.49ff94p-17f},
    [OG_LOOP_ERF + 4] = {
        -0x1.8228aep-11f, 0x1.77be0cp-3f, 0x1.8979bep-5f, -0x1.92d752p-5f,
        -0x1.ae9352p-6f, -0x1.41be7ap-8f, -0x1.e05cc2p-12f, 0x1.d70974p-13f},
    [OG_LOOP_ERF + 5] = {
        0x1.e58f5cp-4f, -0x1.059c7ep-10f, -0x1.094344p-4f, -0x1.71a23cp-8f,
        0x1.942794p-7f, 0x1.fac5b4p-9f, 0x1.d45abap-12f, 0x1.9a3632p-16f},
    [OG_LOOP_ERF + 6] = {
        -0x1.49e194p-6f, -0x1.858f04p-5f, 0x1.392412p-7f, 0x1.0136bep-6f,
        -0x1.364f4ap-9f, -0x1.031d28p-10f, 0x1.5c9070p-13f, -0x1.2c539ep-9f},
    [OG_LOOP_ERF_LEAD] = {
        1, 0, 0, 0,
        0, 0, 0, 0},
};
// clang-format on
