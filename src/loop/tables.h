// SPDX-License-Identifier: Apache-2.0
// Tables of floats that row programs pick from by lane (OG_LANE_pick): a vector
// instruction finds one of 8 numbers for each lane.

#ifndef OG_LOOP_TABLES_H
#define OG_LOOP_TABLES_H

enum {
  OG_LOOP_TABLE_SIZE = 8,  // floats
  // erf around piece * 17 / 32, in the distance from there: by piece, the
  // coefficients of degrees 0 to 6, and what the distance counts besides.
  OG_LOOP_ERF_DEGREE = 6,
  OG_LOOP_ERF = 0,
  OG_LOOP_ERF_LEAD = OG_LOOP_ERF + OG_LOOP_ERF_DEGREE + 1,
  OG_LOOP_TABLES,
};

extern const float og_loop_tables[OG_LOOP_TABLES][OG_LOOP_TABLE_SIZE];

#endif  // OG_LOOP_TABLES_H
