// Runs one scenario with System.Data.SqlClient, and prints what it saw, one thing a line.
// mono Scenarios.exe SCENARIO PORT PASSWORD DATABASE plain|TLS
using System;
using System.Collections.Generic;
using System.Data;
using System.Data.SqlClient;
using System.Globalization;
using System.Linq;
using System.Threading;

static class Scenarios
{
    static string port, password, database, encrypt;

    static void Main(string[] words)
    {
        CultureInfo.DefaultThreadCurrentCulture = CultureInfo.InvariantCulture;
        Thread.CurrentThread.CurrentCulture = CultureInfo.InvariantCulture;
        port = words[1]; password = words[2]; database = words[3]; encrypt = words[4];
        switch (words[0])
        {
            case "login": Login(); break;
            case "refused": Refused(); break;
            case "kinds": Kinds(); break;
            case "columns": Columns(); break;
            case "output": Output(); break;
            case "several": Several(); break;
            case "errors": Errors(); break;
            case "transactions": Transactions(); break;
            case "cancel": Cancel(); break;
            case "pool": Pool(); break;
            case "megabyte": Megabyte(); break;
            case "dialog": Dialog(); break;
            case "bulk": Bulk(); break;
            case "mars": Mars(); break;
            default: throw new ArgumentException(words[0]);
        }
        Console.WriteLine("end");
    }

    static SqlConnection Open(string more = "", string secret = null)
    {
        var connection = new SqlConnection(
            $"Server=127.0.0.1,{port};Database={database};User ID=sa;Password={secret ?? password};" +
            $"Encrypt={encrypt == "TLS"};TrustServerCertificate=true;Connect Timeout=120;" + more);
        connection.Open();
        return connection;
    }

    static string Shown(object value)
    {
        if (value is DBNull) return "NULL";
        if (value is byte[]) return BitConverter.ToString((byte[])value);
        if (value is DateTime) return ((DateTime)value).ToString("yyyy-MM-dd HH:mm:ss.fffffff");
        if (value is DateTimeOffset) return ((DateTimeOffset)value).ToString("yyyy-MM-dd HH:mm:ss.fffffff zzz");
        return value is double ? ((double)value).ToString("R") : Convert.ToString(value);
    }

    static void Print(params object[] values) => Console.WriteLine(string.Join("|", values.Select(Shown)));

    static List<object[]> Rows(SqlConnection connection, string sql, SqlTransaction transaction = null, params SqlParameter[] parameters)
    {
        var rows = new List<object[]>();
        using (var command = new SqlCommand(sql, connection, transaction) { CommandTimeout = 120 })
        {
            command.Parameters.AddRange(parameters);
            using (var reader = command.ExecuteReader())
                while (reader.Read())
                {
                    var row = new object[reader.FieldCount];
                    reader.GetValues(row);
                    rows.Add(row);
                }
        }
        return rows;
    }

    static void PrintRows(SqlConnection connection, string sql)
    {
        foreach (var row in Rows(connection, sql)) Print(row);
    }

    static void Login()
    {
        using (var connection = Open()) PrintRows(connection, "SELECT DB_NAME(), SUSER_SNAME(), @@TRANCOUNT");
    }

    static void Refused()
    {
        try { Open("", "wrong"); } catch (SqlException error) { Print(error.Number); }
    }

    static SqlParameter Of(SqlDbType type, object value, int size = 0, byte precision = 0, byte scale = 0)
    {
        var parameter = new SqlParameter("@v", type) { Value = value };
        if (size != 0) parameter.Size = size;
        if (precision != 0) parameter.Precision = precision;
        if (scale != 0) parameter.Scale = scale;
        return parameter;
    }

    // Prints the columns whose values do not come back, or are not found again.
    static void Kinds()
    {
        var moment = new DateTime(2026, 11, 22, 12, 30, 15).AddTicks(1234567);
        var kinds = new Dictionary<string, Func<SqlParameter>>
        {
            ["a_bit"] = () => Of(SqlDbType.Bit, true),
            ["a_tinyint"] = () => Of(SqlDbType.TinyInt, (byte)255),
            ["a_smallint"] = () => Of(SqlDbType.SmallInt, short.MinValue),
            ["a_int"] = () => Of(SqlDbType.Int, int.MaxValue),
            ["a_bigint"] = () => Of(SqlDbType.BigInt, long.MinValue),
            ["a_float"] = () => Of(SqlDbType.Float, -1.5e300),
            ["a_real"] = () => Of(SqlDbType.Real, 0.25f),
            ["a_decimal"] = () => Of(SqlDbType.Decimal, -12345678.1234m, 0, 12, 4),
            ["a_money"] = () => Of(SqlDbType.Money, 1.2500m),
            ["a_varchar"] = () => Of(SqlDbType.VarChar, "Grüße", 50),
            ["a_nvarchar"] = () => Of(SqlDbType.NVarChar, "\U0001F600 Жизнь", 50),
            ["a_long"] = () => Of(SqlDbType.NVarChar, string.Concat(Enumerable.Repeat("\U0001F600", 5000)), -1),
            ["a_varbinary"] = () => Of(SqlDbType.VarBinary, new byte[] { 0, 255, 39 }, 50),
            ["a_date"] = () => Of(SqlDbType.Date, moment.Date),
            ["a_time"] = () => Of(SqlDbType.Time, moment.TimeOfDay),
            ["a_datetime"] = () => Of(SqlDbType.DateTime, new DateTime(2026, 11, 22, 12, 30, 15, 120)),
            ["a_datetime2"] = () => Of(SqlDbType.DateTime2, moment),
            ["a_offset"] = () => Of(SqlDbType.DateTimeOffset, new DateTimeOffset(moment, TimeSpan.FromHours(-5))),
            ["a_guid"] = () => Of(SqlDbType.UniqueIdentifier, new Guid("01B241A8-4CDE-45ED-9CC6-EAA548A341F3")),
        };
        using (var connection = Open())
            foreach (var kind in kinds)
            {
                Rows(connection, "TRUNCATE TABLE dbo.kinds");
                var insert = $"INSERT dbo.kinds ({kind.Key}) VALUES (@v)";
                Rows(connection, insert, null, kind.Value());
                var nothing = kind.Value();
                var value = nothing.Value;
                nothing.Value = DBNull.Value;
                Rows(connection, insert, null, nothing);
                var found = Rows(connection, $"SELECT {kind.Key} FROM dbo.kinds ORDER BY id").Select(row => row[0]).ToArray();
                var same = Rows(connection, $"SELECT COUNT(*) FROM dbo.kinds WHERE {kind.Key} = @v", null, kind.Value())[0][0];
                if (Shown(found[0]) != Shown(value) || found[0].GetType() != value.GetType() || !(found[1] is DBNull) || (int)same != 1)
                    Print(kind.Key, found[0], found[1], same);
            }
    }

    // Columns that cannot be NULL, for whose types SqlClient accepts only the fixed ones.
    static void Columns()
    {
        using (var connection = Open())
            PrintRows(connection,
                "DECLARE @t TABLE (a bit NOT NULL, b tinyint NOT NULL, c smallint NOT NULL, d int NOT NULL, e bigint NOT NULL, " +
                "f float NOT NULL, g real NOT NULL, h decimal(9, 2) NOT NULL, i money NOT NULL, j datetime NOT NULL, " +
                "k uniqueidentifier NOT NULL, l varchar(5) NOT NULL, m nvarchar(max) NOT NULL, n datetime2(7) NOT NULL); " +
                "INSERT @t VALUES (1, 2, 3, 4, 5, 6.5, 7.5, 8.25, 9.5, '2026-11-22', '01B241A8-4CDE-45ED-9CC6-EAA548A341F3', " +
                "'l', N'm', '2026-11-22 12:30:15.1234567'); SELECT * FROM @t");
    }

    static void Output()
    {
        using (var connection = Open())
        using (var command = new SqlCommand("dbo.doubled", connection) { CommandType = CommandType.StoredProcedure })
        {
            command.Parameters.AddWithValue("@n", 21);
            var doubled = command.Parameters.Add("@doubled", SqlDbType.Int);
            var status = command.Parameters.Add("@status", SqlDbType.Int);
            doubled.Direction = ParameterDirection.Output;
            status.Direction = ParameterDirection.ReturnValue;
            command.ExecuteNonQuery();
            Print(doubled.Value, status.Value);
        }
    }

    static void Several()
    {
        using (var connection = Open())
        using (var reader = new SqlCommand("EXEC dbo.several", connection).ExecuteReader())
            do
            {
                Print(Enumerable.Range(0, reader.FieldCount).Select(reader.GetName).ToArray());
                while (reader.Read()) Print(Enumerable.Range(0, reader.FieldCount).Select(reader.GetValue).ToArray());
            } while (reader.NextResult());
    }

    static void Errors()
    {
        using (var connection = Open())
        {
            foreach (var sql in new[] { "SELECT * FROM dbo.nowhere", "INSERT dbo.people (name) VALUES (N'twice'), (N'twice')", "RAISERROR (N'by the client', 16, 1)" })
                try { Rows(connection, sql); } catch (SqlException error) { Print(error.Number); }
            string message = null;
            connection.InfoMessage += (sender, told) => message = told.Errors[0].Message;
            Rows(connection, "PRINT N'told'");
            Print(message);
            PrintRows(connection, "SELECT 1");
        }
    }

    static void Transactions()
    {
        using (var connection = Open())
        {
            using (var transaction = connection.BeginTransaction(IsolationLevel.Serializable, "outer one"))
            {
                Rows(connection, "INSERT dbo.people (name) VALUES (N'kept')", transaction);
                transaction.Save("a savepoint");
                Rows(connection, "INSERT dbo.people (name) VALUES (N'gone')", transaction);
                transaction.Rollback("a savepoint");
                transaction.Commit();
            }
            using (var transaction = connection.BeginTransaction())
            {
                Rows(connection, "INSERT dbo.people (name) VALUES (N'gone too')", transaction);
                transaction.Rollback();
            }
            PrintRows(connection, "SELECT name, @@TRANCOUNT FROM dbo.people");
            Rows(connection, "DELETE dbo.people");
        }
    }

    // Mono's SqlClient sends an Attention for asynchronous requests alone.
    static void Cancel()
    {
        using (var connection = Open())
        {
            var late = new SqlCommand("WAITFOR DELAY '00:10:00'", connection) { CommandTimeout = 1 };
            try { late.ExecuteNonQueryAsync().Wait(); } catch (AggregateException error) { Print(((SqlException)error.InnerException).Number); }
            var command = new SqlCommand("WAITFOR DELAY '00:10:00'", connection) { CommandTimeout = 0 };
            var running = command.ExecuteNonQueryAsync();
            command.Cancel();
            try { running.Wait(); } catch (AggregateException error) { Print(error.InnerException.Message.Split('\n').Last()); }
            PrintRows(connection, "SELECT 1");
        }
    }

    static void Pool()
    {
        var sessions = new HashSet<object>();
        for (var turn = 0; turn < 3; turn++)
            using (var connection = Open("Application Name=pool"))
            {
                sessions.Add(Rows(connection, "SELECT @@SPID")[0][0]);
                PrintRows(connection, "SELECT DB_NAME(), @@TRANCOUNT");
                Rows(connection, "USE master; BEGIN TRANSACTION");
            }
        Print(sessions.Count);
    }

    static void Megabyte()
    {
        var body = Enumerable.Range(0, 1 << 20).Select(index => (byte)(index % 251)).ToArray();
        var text = string.Concat(Enumerable.Repeat("Жизнь\U0001F600", 70000));
        using (var connection = Open())
        {
            Rows(connection, "INSERT dbo.big (id, body, words) VALUES (1, @body, @words)", null,
                new SqlParameter("@body", SqlDbType.VarBinary, -1) { Value = body },
                new SqlParameter("@words", SqlDbType.NVarChar, -1) { Value = text });
            var row = Rows(connection, "SELECT body, words FROM dbo.big")[0];
            Rows(connection, "DELETE dbo.big");
            Print(body.SequenceEqual((byte[])row[0]), text == (string)row[1]);
        }
    }

    static void Dialog()
    {
        using (var connection = Open())
            foreach (var sql in Console.In.ReadToEnd().Split('\0')) PrintRows(connection, sql);
    }

    static void Bulk()
    {
        var table = new DataTable();
        foreach (var column in new[] { "name", "age", "born" }) table.Columns.Add(column, column == "age" ? typeof(int) : column == "born" ? typeof(DateTime) : typeof(string));
        table.Rows.Add("a", 7, new DateTime(2026, 2, 28));
        table.Rows.Add("Жизнь", 18, DBNull.Value);
        using (var connection = Open())
        {
            for (var round = 0; round < 2; round++)
            {
                using (var bulk = new SqlBulkCopy(connection) { DestinationTableName = "dbo.people" })
                {
                    foreach (DataColumn column in table.Columns) bulk.ColumnMappings.Add(column.ColumnName, column.ColumnName);
                    try { bulk.WriteToServer(table); } catch (SqlException error) { Print(error.Number); }
                }
            }
            PrintRows(connection, "SELECT name, age, CAST(born AS nvarchar(10)) FROM dbo.people ORDER BY name");
            PrintRows(connection, "DELETE dbo.people");
        }
    }

    static void Mars()
    {
        using (var connection = Open("MultipleActiveResultSets=true")) PrintRows(connection, "SELECT 1");
    }
}
