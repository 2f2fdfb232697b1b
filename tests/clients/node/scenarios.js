// Runs one scenario with tedious or mssql, and prints what it saw as JSON.
// node scenarios.js LIBRARY SCENARIO PORT PASSWORD DATABASE ENCRYPT, with NODE_PATH where the libraries are.
'use strict';

const [library, scenario, port, password, database, encrypt] = process.argv.slice(2);

// A moment with the 100 nanoseconds behind its milliseconds, as tedious takes and gives them.
const moment = (text, nanoseconds) => Object.assign(new Date(text), { nanosecondDelta: nanoseconds / 1e9 });
const KINDS = {
  a_bit: ['Bit', true],
  a_tinyint: ['TinyInt', 255],
  a_smallint: ['SmallInt', -32768],
  a_int: ['Int', 2147483647],
  a_bigint: ['BigInt', '-9223372036854775808'],
  a_float: ['Float', -1.5e300],
  a_real: ['Real', 0.25],
  a_decimal: ['Decimal', -12345678.1234, { precision: 12, scale: 4 }],
  a_money: ['Money', 1.25],
  a_varchar: ['VarChar', 'Grüße'],
  a_nvarchar: ['NVarChar', '😀 Жизнь'],
  a_long: ['NVarChar', '😀'.repeat(5000)],
  a_varbinary: ['VarBinary', Buffer.from([0, 255, 39])],
  a_date: ['Date', new Date('2026-02-28T00:00:00Z')],
  a_time: ['Time', moment('1970-01-01T23:59:59.123Z', 456700), { scale: 7 }],
  a_datetime: ['DateTime', new Date('2026-11-22T12:30:15.120Z')],
  a_datetime2: ['DateTime2', moment('0001-01-01T00:00:00.001Z', 234500), { scale: 7 }],
  a_offset: ['DateTimeOffset', moment('2026-11-22T06:02:03.456Z', 789100), { scale: 7 }],
  a_guid: ['UniqueIdentifier', '01B241A8-4CDE-45ED-9CC6-EAA548A341F3'],
};

const BULK = [{ name: 'a', age: 7, born: new Date('2026-02-28T00:00:00Z') }, { name: 'Жизнь', age: null, born: null }];
const VERSIONS = ['7_2', '7_3_A', '7_3_B', '7_4'];

const digits = (delta) => Math.round((delta || 0) * 1e7);

const same = (a, b) =>
  a instanceof Date ? b instanceof Date && a.getTime() === b.getTime() && digits(a.nanosecondDelta) === digits(b.nanosecondsDelta)
    : Buffer.isBuffer(a) ? Buffer.isBuffer(b) && a.equals(b) : a === b;

const shown = (error) => ({ number: error.number, code: error.code, message: error.message });

const body = Buffer.from(Array.from({ length: 1 << 20 }, (_, index) => index % 251));
const words = 'Жизнь😀'.repeat(70000);

// -- tedious ----------------------------------------------------------------------------------------------------------

function tedious() {
  const { Connection, Request, TYPES, ISOLATION_LEVEL } = require('tedious');

  const open = (more = {}, secret = password) => new Promise((resolve, reject) => {
    const connection = new Connection({
      server: '127.0.0.1',
      authentication: { type: 'default', options: { userName: 'sa', password: secret } },
      options: {
        port: Number(port), database, encrypt: encrypt === 'TLS', trustServerCertificate: true,
        rowCollectionOnRequestCompletion: true, ...more,
      },
    });
    connection.connect((error) => (error ? reject(error) : resolve(connection)));
  });
  const rowsOf = (rows) => rows.map((row) => row.map((column) => column.value));
  const run = (connection, sql, parameters = [], how = 'execSql') => new Promise((resolve, reject) => {
    const request = new Request(sql, (error, count, rows) => (error ? reject(error) : resolve(rowsOf(rows))));
    for (const [name, type, value, options] of parameters) request.addParameter(name, TYPES[type], value, options);
    connection[how](request);
  });
  const step = (connection, method, ...words) => new Promise((resolve, reject) => {
    connection[method]((error) => (error ? reject(error) : resolve()), ...words);
  });

  return {
    async login() {
      const connection = await open();
      const rows = await run(connection, 'SELECT DB_NAME(), SUSER_SNAME(), @@TRANCOUNT');
      connection.close();
      return rows;
    },
    async versions() {
      const rows = [];
      for (const tdsVersion of VERSIONS) {
        const connection = await open({ tdsVersion });
        rows.push(...await run(connection, 'SELECT @@SPID - @@SPID, CAST(N\'x\' AS nvarchar(max)), @v', [['v', 'Int', 7]]));
        connection.close();
      }
      return rows;
    },
    async refused() {
      return open({}, 'wrong').then(() => null, shown);
    },
    async kinds() {
      const connection = await open();
      const wrong = [];
      for (const [column, [type, value, options]] of Object.entries(KINDS)) {
        await run(connection, 'TRUNCATE TABLE dbo.kinds');
        const insert = `INSERT dbo.kinds (${column}) VALUES (@v)`;
        await run(connection, insert, [['v', type, value, options]]);
        await run(connection, insert, [['v', type, null, options]]);
        const [first, second] = await run(connection, `SELECT ${column} FROM dbo.kinds ORDER BY id`);
        const [[found]] = await run(connection, `SELECT COUNT(*) FROM dbo.kinds WHERE ${column} = @v`, [['v', type, value, options]]);
        if (!same(value, first[0]) || second[0] !== null || found !== 1) wrong.push([column, first, second, found]);
      }
      connection.close();
      return wrong;
    },
    async output() {
      const connection = await open();
      const values = await new Promise((resolve, reject) => {
        const found = {};
        const request = new Request('dbo.doubled', (error) => (error ? reject(error) : resolve(found)));
        request.addParameter('n', TYPES.Int, 21);
        request.addOutputParameter('doubled', TYPES.Int);
        request.on('returnValue', (name, value) => { found[name] = value; });
        request.on('doneProc', (count, more, status) => { found.status = status; });
        connection.callProcedure(request);
      });
      connection.close();
      return values;
    },
    async several() {
      const connection = await open({ rowCollectionOnRequestCompletion: false });
      const sets = await new Promise((resolve, reject) => {
        const found = [];
        const request = new Request('EXEC dbo.several', (error) => (error ? reject(error) : resolve(found)));
        request.on('columnMetadata', (columns) => found.push([columns.map((column) => column.colName)]));
        request.on('row', (row) => found[found.length - 1].push(row.map((column) => column.value)));
        connection.execSqlBatch(request);
      });
      connection.close();
      return sets;
    },
    async errors() {
      const connection = await open();
      const numbers = [];
      for (const sql of ['SELECT * FROM dbo.nowhere', "INSERT dbo.people (name) VALUES (N'twice'), (N'twice')", "RAISERROR (N'by the client', 16, 1)"]) {
        await run(connection, sql).then(() => numbers.push(0), (error) => numbers.push(error.number));
      }
      const rows = await run(connection, 'SELECT 1');
      connection.close();
      return [numbers, rows];
    },
    async transactions() {
      const connection = await open();
      await step(connection, 'beginTransaction', 'outer one', ISOLATION_LEVEL.SERIALIZABLE);
      await run(connection, "INSERT dbo.people (name) VALUES (N'kept')");
      await step(connection, 'saveTransaction', 'a savepoint');
      await run(connection, "INSERT dbo.people (name) VALUES (N'gone')");
      await step(connection, 'rollbackTransaction', 'a savepoint');
      await step(connection, 'commitTransaction', 'outer one');
      await step(connection, 'beginTransaction');
      await run(connection, "INSERT dbo.people (name) VALUES (N'gone too')");
      await step(connection, 'rollbackTransaction');
      const rows = await run(connection, 'SELECT name, @@TRANCOUNT FROM dbo.people');
      await run(connection, 'DELETE dbo.people');
      connection.close();
      return rows;
    },
    async cancel() {
      const connection = await open({ requestTimeout: 500 });
      const late = await run(connection, "WAITFOR DELAY '00:10:00'").then(() => null, shown);
      const given_up = await new Promise((resolve) => {
        const request = new Request("SELECT 1; WAITFOR DELAY '00:10:00'", (error) => resolve(error && shown(error)));
        request.setTimeout(0);
        connection.execSqlBatch(request);
        setImmediate(() => connection.cancel());
      });
      const rows = await run(connection, 'SELECT 1');
      connection.close();
      return [late.code, given_up.code, rows];
    },
    async pool() {
      const connection = await open();
      await run(connection, 'SET XACT_ABORT ON; BEGIN TRANSACTION; USE master', [], 'execSqlBatch');
      await new Promise((resolve, reject) => connection.reset((error) => (error ? reject(error) : resolve())));
      const rows = await run(connection, 'SELECT @@TRANCOUNT, DB_NAME()');
      connection.close();
      return rows;
    },
    async megabyte() {
      const connection = await open();
      await run(connection, 'INSERT dbo.big (id, body, words) VALUES (1, @body, @words)', [
        ['body', 'VarBinary', body, { length: 'max' }], ['words', 'NVarChar', words, { length: 'max' }]]);
      const [[foundBody, foundWords]] = await run(connection, 'SELECT body, words FROM dbo.big');
      await run(connection, 'DELETE dbo.big');
      connection.close();
      return [same(body, foundBody), words === foundWords];
    },
    async dialog(texts) {
      const connection = await open();
      const heard = [];
      for (const text of texts) heard.push(await run(connection, text, [], 'execSqlBatch'));
      connection.close();
      return heard;
    },
    async bulk() {
      const connection = await open();
      const load = (people) => new Promise((resolve) => {
        const bulk = connection.newBulkLoad('dbo.people', (error, count) => resolve(error ? error.number : count));
        bulk.addColumn('name', TYPES.NVarChar, { length: 40, nullable: false });
        bulk.addColumn('age', TYPES.Int, { nullable: true });
        bulk.addColumn('born', TYPES.Date, { nullable: true });
        connection.execBulkLoad(bulk, people);
      });
      const counts = [await load(BULK), await load(BULK)];
      const rows = await run(connection, 'SELECT name, age, CAST(born AS nvarchar(10)) FROM dbo.people ORDER BY name');
      await run(connection, 'DELETE dbo.people');
      connection.close();
      return [counts, rows];
    },
  };
}

// -- mssql ------------------------------------------------------------------------------------------------------------

function mssql() {
  const sql = require('mssql');

  const open = (more = {}, secret = password) => new sql.ConnectionPool({
    server: '127.0.0.1', port: Number(port), user: 'sa', password: secret, database,
    options: { encrypt: encrypt === 'TLS', trustServerCertificate: true }, pool: { max: 1, min: 0 }, ...more,
  }).connect();
  const typed = (type, options) => {
    if (options === undefined) return type.endsWith('Char') || type === 'VarBinary' ? sql[type](sql.MAX) : sql[type];
    return options.precision ? sql[type](options.precision, options.scale) : sql[type](options.scale);
  };
  const rowsOf = (result) => result.recordset.map((row) => Object.values(row));

  return {
    async login() {
      const pool = await open();
      const rows = rowsOf(await pool.query('SELECT DB_NAME() AS a, SUSER_SNAME() AS b, @@TRANCOUNT AS c'));
      await pool.close();
      return rows;
    },
    async versions() {
      const rows = [];
      for (const tdsVersion of VERSIONS) {
        const pool = await open({ options: { encrypt: false, tdsVersion } });
        rows.push(...rowsOf(await pool.request().input('v', sql.Int, 7).query('SELECT @@SPID - @@SPID AS a, CAST(N\'x\' AS nvarchar(max)) AS b, @v AS c')));
        await pool.close();
      }
      return rows;
    },
    async refused() {
      return open({}, 'wrong').then(() => null, shown);
    },
    async kinds() {
      const pool = await open();
      const wrong = [];
      for (const [column, [type, value, options]] of Object.entries(KINDS)) {
        await pool.query('TRUNCATE TABLE dbo.kinds');
        const insert = `INSERT dbo.kinds (${column}) VALUES (@v)`;
        await pool.request().input('v', typed(type, options), value).query(insert);
        await pool.request().input('v', typed(type, options), null).query(insert);
        const [[first], [second]] = rowsOf(await pool.query(`SELECT ${column} FROM dbo.kinds ORDER BY id`));
        if (!same(value, first) || second !== null) wrong.push([column, first, second]);
      }
      await pool.close();
      return wrong;
    },
    async output() {
      const pool = await open();
      const result = await pool.request().input('n', sql.Int, 21).output('doubled', sql.Int).execute('dbo.doubled');
      await pool.close();
      return { ...result.output, status: result.returnValue };
    },
    async several() {
      const pool = await open();
      const result = await pool.request().execute('dbo.several');
      await pool.close();
      return result.recordsets.map((rows) => [Object.keys(rows.columns), ...rows.map((row) => Object.values(row))]);
    },
    async errors() {
      const pool = await open();
      const numbers = [];
      for (const text of ['SELECT * FROM dbo.nowhere', "INSERT dbo.people (name) VALUES (N'twice'), (N'twice')", "RAISERROR (N'by the client', 16, 1)"]) {
        await pool.query(text).then(() => numbers.push(0), (error) => numbers.push(error.number));
      }
      const rows = rowsOf(await pool.query('SELECT 1 AS a'));
      await pool.close();
      return [numbers, rows];
    },
    async transactions() {
      const pool = await open();
      const kept = new sql.Transaction(pool);
      await kept.begin(sql.ISOLATION_LEVEL.SERIALIZABLE);
      await new sql.Request(kept).query("INSERT dbo.people (name) VALUES (N'kept')");
      await kept.commit();
      const gone = new sql.Transaction(pool);
      await gone.begin();
      await new sql.Request(gone).query("INSERT dbo.people (name) VALUES (N'gone')");
      await gone.rollback();
      const rows = rowsOf(await pool.query('SELECT name, @@TRANCOUNT AS n FROM dbo.people'));
      await pool.query('DELETE dbo.people');
      await pool.close();
      return rows;
    },
    async cancel() {
      const pool = await open({ requestTimeout: 500 });
      const late = await pool.query("WAITFOR DELAY '00:10:00'").then(() => null, shown);
      const request = pool.request();
      request.overrides = { requestTimeout: 0 };
      const running = request.query("WAITFOR DELAY '00:10:00'").then(() => null, shown);
      setTimeout(() => request.cancel(), 50);
      const given_up = await running;
      const rows = rowsOf(await pool.query('SELECT 1 AS a'));
      await pool.close();
      return [late.code, given_up.code, rows];
    },
    async pool() {
      const pool = await open();
      const spids = new Set();
      for (let turn = 0; turn < 3; turn += 1) {
        spids.add((await pool.query('SELECT @@SPID AS spid')).recordset[0].spid);
      }
      const rows = rowsOf(await pool.query('SELECT @@TRANCOUNT AS n, DB_NAME() AS name'));
      await pool.close();
      return spids.size === 1 ? rows : [...spids];
    },
    async megabyte() {
      const pool = await open();
      await pool.request().input('body', sql.VarBinary(sql.MAX), body).input('words', sql.NVarChar(sql.MAX), words)
        .query('INSERT dbo.big (id, body, words) VALUES (1, @body, @words)');
      const [row] = (await pool.query('SELECT body, words FROM dbo.big')).recordset;
      await pool.query('DELETE dbo.big');
      await pool.close();
      return [same(body, row.body), words === row.words];
    },
    async dialog(texts) {
      const pool = await open();
      const heard = [];
      for (const text of texts) heard.push(((result) => (result.recordset ? rowsOf(result) : []))(await pool.request().batch(text)));
      await pool.close();
      return heard;
    },
    async bulk() {
      const pool = await open();
      const table = new sql.Table('dbo.people');
      table.columns.add('name', sql.NVarChar(40), { nullable: false });
      table.columns.add('age', sql.Int, { nullable: true });
      table.columns.add('born', sql.Date, { nullable: true });
      for (const { name, age, born } of BULK) table.rows.add(name, age, born);
      const load = () => pool.request().bulk(table).then((result) => result.rowsAffected, (error) => error.number);
      const counts = [await load(), await load()];
      const rows = rowsOf(await pool.query('SELECT name, age, CAST(born AS nvarchar(10)) AS born FROM dbo.people ORDER BY name'));
      await pool.query('DELETE dbo.people');
      await pool.close();
      return [counts, rows];
    },
  };
}

const scenarios = { tedious, mssql }[library]();
const texts = scenario === 'dialog' ? JSON.parse(require('fs').readFileSync(0, 'utf8')) : undefined;
scenarios[scenario](texts).then(
  (found) => process.stdout.write(JSON.stringify(found === undefined ? null : found)),
  (error) => { process.stderr.write(`${error.stack}\n`); process.exitCode = 1; },
);
